//! From raw to validated values: rules on several values, or on a value's meaning. Reports all
//! mistakes and returns a configuration only if there are none.

mod address;
mod auth;
mod builtin;
mod compose;
mod egress;
mod memory;
mod policy;
mod receivers;
mod secret;
mod server;
mod server_auth;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lockgate_telemetry::Format as LogFormat;

use crate::loaded::{Config, Sources};
use crate::problem::{Problems, ValuePlace};
use crate::raw::{Profile, Root};
use crate::source::layer::Layers;
use crate::source::node::{Node, Value};
use crate::suggest;
pub use receivers::decode_webhook_secret;
pub use server::is_own_header;

const NAME_CHARS: usize = 64;
const TITLE_CHARS: usize = 200;
const INSTRUCTIONS_BYTES: usize = 16 * 1024;
/// The hint for a path that does not exist.
const RELATIVE: &str = "paths are relative to the file that contains them";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns the validated configuration if there is no mistake; `own` is the configuration file.
pub fn config(
    root: &Root,
    layers: &Layers,
    sources: &Sources,
    own: Option<&Path>,
    problems: &mut Problems,
) -> Option<Config> {
    let errors_before = problems.errors();
    let mut check = Check {
        root,
        layers,
        sources,
        problems,
        production: root.profile == Profile::Production,
        section: Vec::new(),
    };
    let mut proxy = check.proxy();
    proxy.limits.bytes_in_flight = check.bytes_in_flight();
    let mut authn = check.auth();
    let mut listener = check.listener(authn.admits_others());
    let main = listener.as_ref().map(|listener| listener.listen);
    let admin = check.admin(main, authn.admits_others());
    authn.role_holders = admin.api.role_holders.clone();
    authn.sign_in = check.sign_in(&authn, &admin);
    authn.signer = check.identity(authn.public_url.as_ref());
    check.webhook();
    proxy.discovery = check.discovery(authn.public_url.as_ref());
    let accounts = check.accounts(authn.public_url.as_ref());
    if let Some(listener) = &mut listener {
        adapt_listener(listener, proxy.limits.bytes_in_flight, authn.public_url.as_ref());
    }
    let policy = check.policy(&authn);
    let egress = check.egress(admin.api.role_holders.trusts_local);
    let telemetry = check.telemetry();
    let store = check.store(own, admin.api.role_holders.trusts_local);
    let limits = check.redis();
    proxy.replicas = check.replicas(listener.as_ref());
    let catalogue = check.catalogue();
    let tools = check.tools();
    let servers = check.servers(&tools);
    let listener = listener.filter(|_| check.problems.errors() == errors_before)?;
    Some(Config {
        production: check.production,
        listener,
        proxy,
        authn,
        policy,
        egress,
        telemetry,
        store,
        limits,
        tools,
        admin,
        servers,
        accounts,
        catalogue,
    })
}

/// Adapts the listener to other settings.
fn adapt_listener(
    listener: &mut lockgate_listener::Config,
    bytes_in_flight: usize,
    public_url: Option<&url::Url>,
) {
    // A larger body would never fit.
    let bytes = &mut listener.http.body_bytes;
    *bytes = bytes_in_flight.min(*bytes);
    // Approvals and the pages that connect accounts are the gateway's own.
    let own = public_url.map(|url| url.origin().ascii_serialization());
    listener.http.origins.extend(own);
}

/// The state of the checks. Keys are relative to the section that is being checked, with dots
/// between their names.
struct Check<'a> {
    root: &'a Root,
    layers: &'a Layers,
    sources: &'a Sources,
    problems: &'a mut Problems,
    production: bool,
    section: Vec<String>,
}

impl Check<'_> {
    /// Checks an entry with a name of the operator's choice, which may contain dots.
    fn within<T>(&mut self, map: &str, name: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let section = [self.path(map), vec![name.to_owned()]].concat();
        let outer = std::mem::replace(&mut self.section, section);
        let checked = check(self);
        self.section = outer;
        checked
    }

    /// Returns the whole path of a key; of the section itself if the key is empty.
    fn path(&self, key: &str) -> Vec<String> {
        let mut path = self.section.clone();
        path.extend(key.split('.').filter(|name| !name.is_empty()).map(str::to_owned));
        self.layers.written_path(path)
    }

    fn given(&self, key: &str) -> Option<&Node> {
        self.layers.given(&self.path(key))
    }

    /// Returns whether a value is malformed.
    fn is_damaged(&self, key: &str) -> bool {
        self.layers.has_damage(&self.path(key))
    }

    fn error(&mut self, key: &str, what: impl Into<String>, hint: impl Into<String>) {
        self.error_at(&self.path(key), what, hint);
    }

    fn error_at(&mut self, path: &[String], what: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(self.layers.place(path), path.join("."), what, hint);
    }

    fn warning(&mut self, key: &str, what: impl Into<String>, hint: impl Into<String>) {
        let path = self.path(key);
        self.problems.warning(self.layers.place(&path), path.join("."), what, hint);
    }

    /// Reports a key that is required in production, at the place that selects production.
    fn missing(&mut self, key: &str, hint: &str) {
        let place = match self.layers.place(&self.path(key)) {
            ValuePlace::Nowhere => self.layers.place(&["profile"]),
            place => place,
        };
        self.problems.error(place, key, "is required in production", hint);
    }

    /// Reports an error with the value, if it may be shown.
    fn wrong_value(&mut self, key: &str, what: &str, hint: impl Into<String>) {
        self.error(key, format!("{what}{}", self.shown(key)), hint);
    }

    /// Reports a mistake, unless the value is malformed.
    fn absent(&mut self, key: &str, what: &str, hint: impl Into<String>) {
        if !self.is_damaged(key) {
            self.error(key, what, hint);
        }
    }

    /// Returns a required value. A missing one is reported, unless it is malformed.
    fn required<T>(&mut self, key: &str, value: Option<T>, hint: &str) -> Option<T> {
        if value.is_none() {
            self.absent(key, "is required", hint);
        }
        value
    }

    fn at_most(&mut self, key: &str, entries: usize, most: usize, hint: &str) {
        if entries > most {
            self.error(key, format!("must not have more than {most} entries"), hint);
        }
    }

    /// Parses each item of a list, and reports the invalid ones.
    fn items<T>(
        &mut self,
        list: &str,
        texts: &[String],
        (what, hint): (&str, &str),
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let mut items = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            match parse(text) {
                Some(item) => items.push(item),
                None => self.item_error(list, at, what, hint),
            }
        }
        items
    }

    /// Checks the name of an entry of a section.
    fn entry_name(&mut self, section: &str, name: &str, hint: &str) {
        if !is_slug(name) {
            let what = "the name of an entry must be 1 to 64 of a-z, 0-9 and -";
            self.within(section, name, |check| check.error("", what, hint));
        }
    }

    /// Returns the value of a key for a message; empty if the value may be a secret.
    fn shown(&self, key: &str) -> String {
        self.given(key).map_or(String::new(), |node| node.shown(&self.path(key)))
    }

    /// Reports a mistake in a list's item, at the item itself unless the list was written as text.
    fn item_error(&mut self, list: &str, at: usize, what: &str, hint: &str) {
        self.wrong_value(&self.item_key(list, at), what, hint);
    }

    /// Returns the key of a list's item, or of the list if it was written as text.
    fn item_key(&self, list: &str, at: usize) -> String {
        match self.given(list) {
            Some(Node { value: Value::List(_), .. }) => format!("{list}.{at}"),
            _ => list.to_owned(),
        }
    }

    /// Checks that a file exists.
    fn file(&mut self, key: &str, file: &Path) -> PathBuf {
        if !file.is_file() {
            self.wrong_value(key, "there is no such file", RELATIVE);
        }
        file.to_path_buf()
    }

    fn proxy(&mut self) -> lockgate_proxy::Config {
        let root = self.root;
        if !is_slug(&root.name) {
            let what = format!("must be 1 to {NAME_CHARS} of a-z, 0-9 and -");
            self.wrong_value("name", &what, "set the display name in `title`");
        }
        self.check_groups();
        self.secrets();
        self.short("title", root.title.as_deref(), TITLE_CHARS);
        self.short("instructions", root.instructions.as_deref(), INSTRUCTIONS_BYTES);
        lockgate_proxy::Config {
            name: root.name.clone(),
            title: root.title.clone(),
            instructions: root.instructions.clone(),
            names: root.names.clone(),
            limits: root.limits.clone(),
            connections_per_address: root.http.most_of_address(),
            tool_search: self.tool_search(),
            groups: root.groups.clone(),
            endpoints: self.endpoints(),
            discovery: None,
            methods: self.methods(),
            extensions: root.extensions.iter().cloned().collect(),
            secret: root.secret.clone(),
            old_secrets: root.old_secrets.clone(),
            pins: self.pins(),
            replicas: None,
        }
    }

    /// Returns the URL of an address at which browsers and clients on this machine reach the
    /// gateway.
    fn local_url(&self, listen: SocketAddr) -> Option<url::Url> {
        if !listen.ip().is_loopback() || listen.port() == 0 {
            return None;
        }
        let scheme = if self.root.http.tls.is_some() { "https" } else { "http" };
        url::Url::parse(&format!("{scheme}://{listen}")).ok()
    }

    fn short(&mut self, path: &str, text: Option<&str>, most: usize) {
        if text.is_some_and(|text| text.len() > most) {
            self.error(path, format!("must not be longer than {most} bytes"), "shorten it");
        }
    }

    fn telemetry(&mut self) -> lockgate_telemetry::Config {
        let default = if self.production { LogFormat::Json } else { LogFormat::Text };
        lockgate_telemetry::Config {
            level: self.level(),
            format: self.root.log.format.unwrap_or(default),
            export: self.export(),
            audit: self.audit(),
        }
    }

    /// Returns the log filter, with other programs' level names translated.
    fn level(&mut self) -> String {
        let given = &self.root.log.level;
        let words: Vec<_> = given.split(',').map(|part| level_word(part.trim())).collect();
        let path = "log.level";
        let mut levels = words.iter().filter(|word| !word.contains(['=', ':', '[']));
        if let Some(word) = levels.find(|word| !LEVELS.contains(&word.as_str())) {
            let hint = suggest::for_word(word, &LEVELS).unwrap_or_else(|| {
                "per module it is MODULE=LEVEL, such as info,lockgate_proxy=debug".into()
            });
            let what = format!("must be {}", suggest::one_of(&LEVELS));
            self.wrong_value(path, &what, hint);
            return given.clone();
        }
        let filter = words.join(",");
        if tracing_subscriber::EnvFilter::builder().parse(&filter).is_err() {
            self.wrong_value(path, "is not a log filter", "such as info,lockgate_proxy=debug");
        }
        filter
    }
}

/// Checks for `^[a-z0-9-]+$`, at most 64 characters.
fn is_slug(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_http(url: &url::Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

/// Parses an http or https address without user and password.
fn parse_open_url(text: &str) -> Option<url::Url> {
    let url = url::Url::parse(text).ok()?;
    if !is_http(&url) || !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    Some(url)
}

/// Returns whether an address belongs to this machine.
fn is_local(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Translates level names in upper case, and those of MCP and Python.
fn level_word(word: &str) -> String {
    if word.contains(['=', '[']) {
        return word.to_string();
    }
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "notice" => "info".to_string(),
        "warning" => "warn".to_string(),
        "critical" | "alert" | "emergency" => "error".to_string(),
        _ => lower,
    }
}

#[cfg(test)]
mod tests;
