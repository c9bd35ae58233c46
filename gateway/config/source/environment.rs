//! Environment variables and flags as layers: `LOCKGATE_A__B=…` is the key `a.b`. An unknown
//! `LOCKGATE_` variable is a mistake; an empty variable counts as not set. The caller passes the
//! environment, which is never read here.

pub mod opentelemetry;

use std::collections::BTreeMap;

use lockgate_text::percent;
use lockgate_text::setting::Toggle;
use url::Url;

use super::decode::decode;
use super::json;
use super::layer::{Layers, items};
use super::node::{Node, Value};
use crate::loaded::Flags;
use crate::problem::{Problem, Problems, ValuePlace};

const PREFIX: &str = "LOCKGATE_";

/// Variables with the prefix that are not keys: the configuration file, the conventional name of
/// `auth.key`, the commands' gateway address and key, and those of the program's own tests and
/// helpers.
pub const RESERVED: &[&str] = &[
    "LOCKGATE_CONFIG",
    "LOCKGATE_KEY",
    "LOCKGATE_CLIENT_KEY",
    "LOCKGATE_URL",
    "LOCKGATE_CACHE",
    "LOCKGATE_BIN",
    "LOCKGATE_FIXTURE",
    "LOCKGATE_LOGS",
    "LOCKGATE_E2E_TOKEN",
];

/// Conventional variables of other programs, and their keys.
const CONVENTIONAL: &[(&str, &[&str])] =
    &[("MCP_SERVER_NAME", &["name"]), ("MCP_LOG_LEVEL", &["log", "level"])];

/// Reads `LOCKGATE_…` variables into a layer.
pub fn prefixed(env: &BTreeMap<String, String>, problems: &mut Problems) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    for (name, value) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if value.is_empty() || RESERVED.contains(&name.as_str()) {
            continue;
        }
        let path = path(rest);
        let place = ValuePlace::Variable(name.clone());
        if path.iter().any(String::is_empty) {
            let hint = "write LOCKGATE_SECTION__KEY, such as LOCKGATE_LOG__LEVEL";
            problems.error(place, "", "contains no key", hint);
        } else if !root.put(&path, parse(value, &place)) {
            let what = "conflicts with another variable that sets the same key, or its section";
            problems.push(Problem::error(place, path.join("."), what));
        }
    }
    root
}

/// Converts a name to a path in lower case, except for variables of a child process. Slugs and
/// header names have `-` for `_`.
fn path(rest: &str) -> Vec<String> {
    let mut path: Vec<_> = rest.split("__").map(|part| part.to_ascii_lowercase()).collect();
    if path.len() >= 2 && path[0] == "servers" {
        path[1] = path[1].replace('_', "-");
    }
    if path.len() == 4 && path[0] == "servers" {
        match path[2].as_str() {
            "env" => path[3] = rest.split("__").nth(3).unwrap_or("").to_string(),
            "headers" => path[3] = path[3].replace('_', "-"),
            _ => {}
        }
    }
    path
}

/// Returns the value as text, which every raw type accepts; lists and maps are parsed as JSON.
fn parse(value: &str, place: &ValuePlace) -> Node {
    if value.starts_with(['[', '{'])
        && let Some(node) = json::read_value(value, place)
        && matches!(node.value, Value::List(_) | Value::Map(_))
    {
        return node;
    }
    Node::text(value, place.clone())
}

/// Returns the value of a variable, unless empty.
pub fn find_set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a String> {
    env.get(name).filter(|value| !value.is_empty())
}

/// Returns the first of these variables that is set, and not empty.
pub fn find_first<'a>(
    env: &'a BTreeMap<String, String>,
    names: [&'static str; 2],
) -> Option<(&'static str, &'a str)> {
    names.into_iter().find_map(|name| Some((name, find_set(env, name)?.as_str())))
}

/// Reads `MCP_…` variables into a layer. `listen` is the address from weaker layers, of which host
/// and port can be set separately.
pub fn conventional(env: &BTreeMap<String, String>, listen: &str, problems: &mut Problems) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    for (name, path) in CONVENTIONAL {
        if let Some(value) = find_set(env, name) {
            root.put(path, Node::text(value, ValuePlace::Variable((*name).to_string())));
        }
    }
    let host = find_set(env, "MCP_HOST");
    let port = find_set(env, "MCP_PORT");
    if host.is_none() && port.is_none() {
        return root;
    }
    if let Some(port) = port.filter(|port| port.parse::<u16>().is_err()) {
        let place = ValuePlace::Variable("MCP_PORT".to_string());
        let what = format!("must be a port from 1024 to 65535 (it is `{}`)", port.escape_debug());
        problems.error(place, "listen", what, "write a number");
        return root;
    }
    let place = ValuePlace::Variable(host.map_or("MCP_PORT", |_| "MCP_HOST").to_string());
    let (old_host, old_port) = listen.rsplit_once(':').unwrap_or(("127.0.0.1", "3001"));
    let host = match host {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.clone(),
        None => old_host.to_string(),
    };
    let port = port.map_or(old_port, String::as_str);
    root.put(&["listen"], Node::text(format!("{host}:{port}"), place));
    root
}

pub fn flags(flags: &Flags) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    let given: [(&'static str, &[&str], &Option<String>); 3] = [
        ("--listen", &["listen"], &flags.listen),
        ("--log-level", &["log", "level"], &flags.log_level),
        ("--profile", &["profile"], &flags.profile),
    ];
    for (flag, path, value) in given {
        if let Some(value) = value {
            root.put(path, Node::text(value, ValuePlace::Flag(flag)));
        }
    }
    root
}

// `egress.from_environment`: the proxy and its exceptions from other programs' variables.

/// Conventional variables for the proxy of `https` URLs; the first that is set is used.
pub const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Reads these variables into the strongest layer, if the weaker ones permit it.
pub fn network(env: &BTreeMap<String, String>, weaker: &Layers, problems: &mut Problems) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    let permission = ["egress", "from_environment"];
    let permitted = weaker.given(&permission).and_then(|node| decode(&node.to_figment()).ok());
    if !permitted.is_some_and(|Toggle::<false>(is)| is) {
        return root;
    }
    if weaker.given(&["egress", "proxy"]).is_none()
        && let Some((name, text)) = find_first(env, PROXY_VARIABLES)
    {
        let place = ValuePlace::Variable(name.to_owned());
        let proxy = read_proxy(text);
        if proxy.is_none() {
            let what = format!("{name} is not http://host:port or http://user:password@host:port");
            let hint = "correct the variable, or set the proxy in `egress.proxy`";
            problems.error(weaker.place(&permission), permission.join("."), what, hint);
        }
        for (key, value) in proxy.into_iter().flatten() {
            root.put(&["egress", "proxy", key], Node::text(value, place.clone()));
        }
    }
    if let Some((name, text)) = find_first(env, NO_PROXY_VARIABLES) {
        let place = ValuePlace::Variable(name.to_owned());
        let mut all = items(weaker.given(&["egress", "no_proxy"]));
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        all.extend(entries.map(|entry| Node::text(entry, place.clone())));
        root.put(&["egress", "no_proxy"], Node::new(Value::List(all), place));
    }
    root
}

/// Returns the keys and values of a proxy's URL.
fn read_proxy(text: &str) -> Option<Vec<(&'static str, String)>> {
    let scheme = if text.contains("://") { "" } else { "http://" };
    let mut url = Url::parse(&format!("{scheme}{text}")).ok()?;
    let mut settings = Vec::new();
    if !url.username().is_empty() || url.password().is_some() {
        let parts = [("user", url.username()), ("password", url.password().unwrap_or(""))];
        for (key, part) in parts {
            let text = String::from_utf8(percent::decode_strictly(part)?).ok()?;
            settings.push((key, Some(text).filter(|text| !text.contains(char::is_control))?));
        }
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
    }
    settings.push(("url", url.to_string()));
    is_proxy(&url).then_some(settings)
}

/// Checks for `http://host:port` without other parts.
pub fn is_proxy(url: &Url) -> bool {
    url.scheme() == "http"
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
}
