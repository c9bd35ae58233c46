//! Tests that every value has a source and none contains a secret.

use serde_json::{Value as Json, json};

use crate::source::forms::{Form, has_form};
use crate::tests::TestConfig;
use crate::{Effective, Flags, effective};

fn show(given: &TestConfig) -> Effective {
    effective(&given.sources).unwrap_or_else(|report| panic!("{report}"))
}

#[track_caller]
fn find(shown: &Effective, key: &str) -> (Json, String) {
    let found = shown.settings.iter().find(|setting| setting.key == key);
    let setting = found.unwrap_or_else(|| panic!("no {key}"));
    (setting.value.clone(), setting.origin.to_string())
}

#[test]
fn each_value_names_the_source_that_won() {
    let given = TestConfig::files(&[
        ("lockgate.yaml", "listen: 127.0.0.1:4000\nlog:\n  level: warn\nimport: desk.json\n"),
        ("desk.json", "{\"mcpServers\": {\n \"memory\": {\"command\": \"npx\"}}}"),
    ])
    .env("LOCKGATE_LIMITS__SESSIONS", "20")
    .env("MCP_SERVER_NAME", "gate")
    .flags(Flags { log_level: Some("debug".into()), ..Flags::default() });
    let shown = show(&given);
    let nowhere = "configuration".to_string();
    let cases = [
        ("listen", json!("127.0.0.1:4000"), "lockgate.yaml:1:9"),
        ("log.level", json!("debug"), "flag --log-level"),
        ("limits.sessions", json!("20"), "environment LOCKGATE_LIMITS__SESSIONS"),
        ("name", json!("gate"), "environment MCP_SERVER_NAME"),
        ("servers.memory.command", json!("npx"), "desk.json:2:24"),
        ("servers.memory.timeout", json!(60), &nowhere),
        ("servers.memory.transport", json!("stdio"), &nowhere),
        ("servers.memory.health.interval", json!(15), &nowhere),
        ("limits.sessions_per_principal", json!(10), &nowhere),
        ("log.format", json!("text"), &nowhere),
        ("http.body_bytes", json!("16MB"), &nowhere),
    ];
    for (key, value, origin) in cases {
        assert_eq!(find(&shown, key), (value, origin.to_string()), "{key}");
    }
    let keys: Vec<&str> = shown.settings.iter().map(|setting| setting.key.as_str()).collect();
    assert!(!keys.iter().any(|key| key.starts_with("builtin.file")), "not configured: {keys:?}");
    let hosts = shown.settings.iter().find(|setting| setting.key == "http.hosts").unwrap();
    assert_eq!((&hosts.value, hosts.otherwise.as_deref()), (&Json::Null, Some("none")));
}

#[test]
fn secrets_are_references_and_never_values() {
    let key = "kKey-0123456789abcdef-0123456789abcdef";
    let text = r#"
secret: file:secret.txt
auth: { key: "${LOCKGATE_KEY}" }
audit: { output: "off", key: "kKey-literal-0123456789abcdef0123456789" }
servers:
  a:
    command: npx
    args: [-y, "@scope/server", --token, kKey-arg, "--key=kKey-arg2"]
    env: { TOKEN: "${TOKEN}", MODE: kKey-env, BOTH: "kKey-part-${TOKEN:-kKey-default}" }
  b:
    url: "https://user:kKey-user@mcp.example.com:8443/kKey-path?key=kKey-query"
    headers: { Authorization: "Bearer ${TOKEN}", X-Plain: kKey-header }
builtin:
  database:
    connections: { db: { url: "postgres://u:kKey-db@db.example.com/name" } }
  shell: { roots: [{ path: work }], environment: { X: kKey-shell } }
telemetry: { otlp: "http://127.0.0.1:4318/v1/kKey-otlp", otlp_logs: "https://c.example/kKey-logs" }
catalogue: { maps: { url: "https://maps.example.com/kKey-path/mcp?key=kKey-catalogue" } }
egress: { proxy: { url: "http://proxy.example.com:3128", user: kKey-user } }
"#;
    let given = TestConfig::files(&[("lockgate.yaml", text), ("secret.txt", key), ("work/a", "")])
        .env("LOCKGATE_KEY", key)
        .env("MCP_ENCRYPTION_KEY", key)
        .env("TOKEN", "kKey-token");
    let given = given
        .env("LOCKGATE_SERVERS__A__ENV__MORE", "kKey-more")
        .env("LOCKGATE_EGRESS__PROXY__PASSWORD", "kKey-password");
    // The file must not have a user in its address.
    let text = text.replace("user:kKey-user@", "");
    std::fs::write(given.path().join("lockgate.yaml"), text).unwrap();
    let shown = show(&given);
    let cases = [
        ("secret", json!("file:secret.txt")),
        ("auth.key", json!("${LOCKGATE_KEY}")),
        ("audit.key", json!("(not shown)")),
        ("store.keys", json!(["${MCP_ENCRYPTION_KEY}"])),
        ("servers.a.command", json!("npx")),
        ("servers.a.args", json!(["-y", "(not shown)", "--token", "(not shown)", "(not shown)"])),
        ("servers.a.env.TOKEN", json!("${TOKEN}")),
        ("servers.a.env.MODE", json!("(not shown)")),
        ("servers.a.env.BOTH", json!("…${TOKEN:-…}")),
        ("servers.a.env.MORE", json!("${LOCKGATE_SERVERS__A__ENV__MORE}")),
        ("servers.b.url", json!("https://mcp.example.com:8443/…")),
        ("servers.b.headers.authorization", json!("Bearer ${TOKEN}")),
        ("servers.b.headers.x-plain", json!("(not shown)")),
        ("builtin.database.connections.db.url", json!("postgres://db.example.com/…")),
        ("telemetry.otlp", json!("http://127.0.0.1:4318/…")),
        ("telemetry.otlp_logs", json!("https://c.example/…")),
        ("catalogue.maps.url", json!("https://maps.example.com/…")),
        ("egress.proxy.url", json!("http://proxy.example.com:3128")),
        ("egress.proxy.user", json!("(not shown)")),
        ("egress.proxy.password", json!("${LOCKGATE_EGRESS__PROXY__PASSWORD}")),
    ];
    for (key, value) in cases {
        assert_eq!(find(&shown, key).0, value, "{key}");
    }
    let all = serde_json::to_string(&shown.settings).unwrap();
    assert!(!all.contains("kKey"), "{all}");
}

#[test]
fn what_is_taken_from_the_environment_is_shown_without_credentials() {
    let given = TestConfig::files(&[(
        "lockgate.yaml",
        "egress: { from_environment: true, no_proxy: [a.example] }\n",
    )])
    .env("HTTPS_PROXY", "http://kKey-user:kKey-password@proxy.example.com:3128")
    .env("no_proxy", "b.example, 10.0.0.0/8")
    .env("SSL_CERT_FILE", "/etc/authorities.pem");
    let shown = show(&given);
    let proxy = "environment HTTPS_PROXY".to_owned();
    let cases = [
        ("egress.proxy.url", json!("http://proxy.example.com:3128"), &proxy),
        ("egress.proxy.user", json!("(not shown)"), &proxy),
        ("egress.proxy.password", json!("(not shown)"), &proxy),
        (
            "egress.no_proxy",
            json!(["a.example", "b.example", "10.0.0.0/8"]),
            &"environment no_proxy".to_owned(),
        ),
    ];
    for (key, value, origin) in cases {
        assert_eq!(find(&shown, key), (value, origin.clone()), "{key}");
    }
    let ca_file = shown.settings.iter().find(|setting| setting.key == "egress.ca_file").unwrap();
    let words = "the authorities of SSL_CERT_FILE: /etc/authorities.pem";
    assert_eq!(ca_file.otherwise.as_deref(), Some(words));
    assert!(!serde_json::to_string(&shown.settings).unwrap().contains("kKey"));
    std::fs::write(given.path().join("lockgate.yaml"), "{}").unwrap();
    let closed = show(&given);
    assert!(!closed.settings.iter().any(|setting| setting.key == "egress.proxy.url"));
}

#[test]
fn every_key_is_shown_that_is_in_force_by_default() {
    const ABSENT: [&str; 13] = [
        "builtin",
        "egress.proxy",
        "http.tls",
        "approvals.webhook",
        "audit.syslog",
        "audit.webhook",
        "auth.scopes",
        "admin.sign_in",
        "telemetry.headers",
        "telemetry.resource",
        "tool_search.embeddings",
        "tool_search.endpoints",
        "tool_search.synonyms",
    ];
    let shown = show(&TestConfig::files(&[]));
    let mut missing = Vec::new();
    for key in crate::schema::tests::walk::keys() {
        let name = key.path.join(".");
        let is_shown = shown.settings.iter().any(|setting| setting.key == name);
        let is_named = key.path.iter().any(|part| part == "NAME");
        let is_absent = ABSENT.iter().any(|section| name.starts_with(section));
        if !(is_shown || is_named || is_absent || key.section || name == "$schema") {
            missing.push(name);
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert!(shown.settings.len() > 90, "{}", shown.settings.len());
}

/// Checks that keys named like secrets or addresses are hidden.
#[test]
fn what_is_called_as_a_secret_or_an_address_is_not_shown() {
    const SECRETS: [&str; 7] =
        ["url", "password", "secret", "client_secret", "key", "keys", "old_secrets"];
    const SHOWN: [&str; 2] = ["http.tls.key", "pins.key"];
    let mut open = Vec::new();
    for key in crate::schema::tests::walk::keys() {
        let is_named_so = key.path.last().is_some_and(|name| SECRETS.contains(&name.as_str()));
        let name = key.path.join(".");
        if is_named_so
            && !key.section
            && !has_form(&key.path, Form::Secret)
            && !SHOWN.contains(&&*name)
        {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
}
