//! Keys with values of a special form: secrets, which may be in files of their own and are never
//! quoted in a message, and paths. A key stands for all keys below it; `*` matches any name.

use Form::{Address, File, Open, Path, Program, Secret};

/// The form of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Never quoted in a message.
    Secret,
    /// A secret that `file:PATH` may replace as a whole.
    File,
    /// A secret address, of which everything before the path is shown.
    Address,
    /// No secret, although it is below a secret key.
    Open,
    /// A path, which is relative to the folder of its file.
    Path,
    /// A program, which is a path if it contains a slash.
    Program,
}

const FORMS: &[(&str, &[Form])] = &[
    ("admin.scrape_token", &[Secret, File]),
    ("admin.sign_in.client_secret", &[Secret, File]),
    ("approvals.webhook", &[Secret]),
    ("approvals.webhook.secret", &[File]),
    ("approvals.webhook.url", &[Address]),
    ("audit.file", &[Path]),
    ("audit.key", &[Secret, File]),
    ("audit.syslog.client_cert", &[Path]),
    ("audit.syslog.client_key", &[Path]),
    ("audit.webhook", &[Secret]),
    ("audit.webhook.client_cert", &[Open, Path]),
    ("audit.webhook.client_key", &[Open, Path]),
    ("audit.webhook.headers", &[File]),
    ("audit.webhook.secret", &[File]),
    ("audit.webhook.url", &[Address]),
    ("auth.key", &[Secret, File]),
    ("auth.keys_file", &[Path]),
    ("builtin.content.folder", &[Path]),
    ("builtin.database.connections", &[Secret]),
    ("builtin.database.connections.*.allow_privileged_role", &[Open]),
    ("builtin.database.connections.*.file", &[Open, Path]),
    ("builtin.database.connections.*.functions", &[Open]),
    ("builtin.database.connections.*.tls", &[Open]),
    ("builtin.database.connections.*.url", &[File, Address]),
    ("builtin.database.embedded.folder", &[Path]),
    ("builtin.file.roots.*.path", &[Path]),
    ("builtin.shell.environment", &[Secret]),
    ("builtin.shell.roots.*.path", &[Path]),
    ("builtin.web.proxy", &[Secret]),
    ("builtin.web.proxy.password", &[File]),
    ("builtin.web.proxy.url", &[Address]),
    ("catalogue.*.url", &[Secret, Address]),
    ("egress.ca_file", &[Path]),
    ("egress.proxy.password", &[Secret, File]),
    ("egress.proxy.url", &[Secret, Address]),
    ("egress.proxy.user", &[Secret]),
    ("http.tls.cert", &[Path]),
    ("http.tls.client_ca", &[Path]),
    ("http.tls.key", &[Path]),
    ("identity.keys", &[Secret, File]),
    ("old_secrets", &[Secret, File]),
    ("pins.file", &[Path]),
    ("policy.files", &[Path]),
    ("redis.url", &[Secret, File, Address]),
    ("secret", &[Secret, File]),
    ("servers.*.args", &[Secret]),
    ("servers.*.auth.client_key", &[Secret, File]),
    ("servers.*.auth.client_secret", &[Secret, File]),
    ("servers.*.auth.provider.client_secret", &[Secret, File]),
    ("servers.*.auth.token_file", &[Path]),
    ("servers.*.command", &[Secret, Program]),
    ("servers.*.cwd", &[Path]),
    ("servers.*.env", &[Secret]),
    ("servers.*.headers", &[Secret, File]),
    ("servers.*.url", &[Secret, Address]),
    ("store.file", &[Path]),
    ("store.keys", &[Secret, File]),
    ("store.url", &[Secret, File, Address]),
    ("telemetry.headers", &[Secret, File]),
    ("telemetry.otlp", &[Secret, Address]),
    ("telemetry.otlp_logs", &[Secret, Address]),
    ("tool_search.embeddings.headers", &[Secret, File]),
    ("tool_search.embeddings.url", &[Secret, Address]),
];

/// Returns whether the values at `path` have this form.
pub fn has_form<S: AsRef<str>>(path: &[S], form: Form) -> bool {
    FORMS.iter().any(|(key, forms)| forms.contains(&form) && is_at_or_below(path, key))
}

/// Returns whether `path` begins with the names of a key.
pub fn is_at_or_below<S: AsRef<str>>(path: &[S], key: &str) -> bool {
    let mut names = path.iter();
    key.split('.').all(|want| names.next().is_some_and(|name| want == "*" || name.as_ref() == want))
}
