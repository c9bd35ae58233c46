//! The settings in force with the source of each value. Secrets are shown as their references;
//! literal secrets are not shown.

use std::collections::BTreeSet;

use lockgate_upstream::Transport;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::load::load_with_layers;
use crate::loaded::{Config, Loaded, Sources};
use crate::problem::{Report, ValuePlace};
use crate::schema::{choices, resolve};
use crate::source::environment::{PROXY_VARIABLES, find_first};
use crate::source::forms::{Form, has_form};
use crate::source::layer::Layers;
use crate::source::node::{Node, Value, as_words};

/// The placeholder of a literal secret.
const HIDDEN: &str = "(not shown)";

/// Locations of the system's CA certificates, as OpenSSL defines them.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Harmless prefixes of a secret in a header.
pub const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

pub struct Effective {
    pub loaded: Loaded,
    /// Ordered by key.
    pub settings: Vec<Setting>,
}

/// A key, its value and the value's source.
#[derive(Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The full key, such as `servers.time.timeout`.
    pub key: String,
    /// `null` if not set; a secret's reference, or a placeholder.
    pub value: Json,
    /// A description of the default, if the value is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// `{}` for a default.
    pub origin: ValuePlace,
}

/// Reads the configuration as `serve` does, and returns the setting of every key.
///
/// # Errors
/// Every mistake in it.
pub fn effective(sources: &Sources) -> Result<Effective, Report> {
    let (loaded, layers) = load_with_layers(sources)?;
    let schema = crate::schema();
    let mut walk = Walk {
        schema: &schema,
        layers: &layers,
        config: &loaded.config,
        path: Vec::new(),
        settings: Vec::new(),
    };
    walk.section(&schema);
    let mut settings = walk.settings;
    add_authorities(&loaded.config, sources, &mut settings);
    Ok(Effective { loaded, settings })
}

struct Walk<'a> {
    schema: &'a Json,
    layers: &'a Layers,
    config: &'a Config,
    path: Vec<String>,
    settings: Vec<Setting>,
}

impl<'a> Walk<'a> {
    /// Visits every key below a section, including user-defined names.
    fn section(&mut self, schema: &'a Json) {
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                if name != "$schema" {
                    self.key(name, property);
                }
            }
        }
        let named = &schema["additionalProperties"];
        if named.is_object() {
            for name in self.given_names() {
                self.key(&name, named);
            }
        }
    }

    fn key(&mut self, name: &str, property: &'a Json) {
        self.path.push(name.to_string());
        let target = resolve(self.schema, property);
        let is_section =
            target.get("properties").is_some() || target["additionalProperties"].is_object();
        if is_section && self.is_in_force(property) {
            self.section(target);
        } else if !is_section {
            self.value(property);
        }
        self.path.pop();
    }

    /// Returns whether a section applies: an optional section only if it was written.
    fn is_in_force(&self, property: &Json) -> bool {
        let may_be_missing = choices(property).iter().any(|choice| choice["type"] == "null");
        !may_be_missing || self.given().is_some()
    }

    fn value(&mut self, property: &Json) {
        let node = self.given();
        let (value, origin) = match node {
            Some(node) => (show(node, &self.path), self.layers.place(&self.path)),
            None => (self.default(property), ValuePlace::Nowhere),
        };
        let description = property["description"].as_str().unwrap_or("");
        let otherwise = match &value {
            Json::Null => default_in_words(description),
            _ => None,
        };
        self.settings.push(Setting { key: self.path.join("."), value, otherwise, origin });
    }

    fn given(&self) -> Option<&'a Node> {
        self.layers.given(&self.path)
    }

    fn given_names(&self) -> BTreeSet<String> {
        let maps = self.layers.0.iter().filter_map(|layer| layer.map_at(&self.path));
        let names = maps.flat_map(|map| map.keys());
        names.cloned().collect()
    }

    fn default(&self, property: &Json) -> Json {
        match property.get("default") {
            Some(default) => default.clone(),
            None => self.computed().unwrap_or(Json::Null),
        }
    }

    /// Returns defaults that depend on other values.
    fn computed(&self) -> Option<Json> {
        let config = self.config;
        Some(match as_words(&self.path).as_slice() {
            ["name"] => json!(config.proxy.name),
            ["listen"] => json!(config.listener.listen),
            ["limits", "bytes_in_flight"] => json!(config.proxy.limits.bytes_in_flight),
            ["limits", "sessions_per_principal"] => {
                json!(config.proxy.limits.of_principal())
            }
            ["builtin", "example"] => json!(config.tools.names().any(|name| name == "example")),
            ["log", "level"] => json!(config.telemetry.level),
            ["log", "format"] => json!(config.telemetry.format),
            ["store", "file"] => match &config.store.place {
                lockgate_store::StorePlace::File(file) => json!(file),
                lockgate_store::StorePlace::Postgres(_) => return None,
            },
            ["servers", slug, key @ ..] => return self.computed_of_server(slug, key),
            _ => return None,
        })
    }

    fn computed_of_server(&self, slug: &str, key: &[&str]) -> Option<Json> {
        let server = self.config.servers.iter().find(|server| server.slug == slug)?;
        match key {
            ["transport"] => Some(match server.transport {
                Transport::Stdio { .. } => json!("stdio"),
                Transport::Http { .. } => json!("http"),
                Transport::Sse { .. } => json!("sse"),
            }),
            ["health", "interval"] => {
                Some(json!(server.health.as_ref().map_or(0, |health| health.interval.as_secs())))
            }
            _ => None,
        }
    }
}

/// Extracts the default from a description.
fn default_in_words(description: &str) -> Option<String> {
    let description = description.replace('\n', " ");
    let mut words = ["Default: ", "Default ", "By default "].into_iter();
    let (_, after) = words.find_map(|word| description.split_once(word))?;
    let sentence = after.split(". ").next().unwrap_or(after);
    Some(sentence.trim_end_matches('.').to_string())
}

/// Returns the value with secrets hidden.
fn show(node: &Node, path: &[String]) -> Json {
    let mut shown = node.clone();
    shown.visit_mut(&mut path.to_vec(), &mut |path, node| {
        let is_secret = has_form(path, Form::Secret) && !has_form(path, Form::Open);
        let text = match (&node.reference, &node.value) {
            (Some(written), _) if is_secret => references(written),
            (Some(written), _) => written.clone(),
            (None, Value::Text(text)) if is_secret => show_secret(text, &node.place, path),
            _ => return,
        };
        node.value = Value::Text(text);
    });
    shown.to_json()
}

/// Returns the part of a possibly secret text that may be shown.
fn show_secret(text: &str, place: &ValuePlace, path: &[String]) -> String {
    // The setting is a part of a proxy's variable.
    if let ValuePlace::Variable(name) = place
        && !PROXY_VARIABLES.contains(&name.as_str())
    {
        return format!("${{{name}}}");
    }
    if has_form(path, Form::Address)
        && let Some(address) = show_address(text)
    {
        return address;
    }
    let is_plain = match path {
        [servers, _, key] if servers == "servers" && key == "command" => {
            !text.contains(char::is_whitespace)
        }
        // Only the name of an option, not its value.
        [servers, _, key, _] if servers == "servers" && key == "args" => is_option_name(text),
        _ => false,
    };
    if is_plain { text.to_string() } else { HIDDEN.to_string() }
}

/// Returns scheme, host and port, because paths and queries may contain keys.
fn show_address(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let host = url.host_str()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let rest = if matches!(url.path(), "" | "/") { "" } else { "/…" };
    Some(format!("{}://{host}{port}{rest}", url.scheme()))
}

/// Matches `-y` and `--long-name`.
fn is_option_name(text: &str) -> bool {
    match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(name), _) => {
            name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        }
        (None, Some(name)) => name.len() == 1,
        _ => false,
    }
}

/// Returns the references in a text, without their defaults and the text around them.
fn references(written: &str) -> String {
    if written.starts_with("file:") {
        return written.to_string();
    }
    let mut shown = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, tail)) = after.split_once('}') else { break };
        shown.push_str(mask(before));
        match inside.split_once(":-") {
            Some((name, _)) => shown.push_str(&format!("${{{name}:-…}}")),
            None => shown.push_str(&format!("${{{inside}}}")),
        }
        rest = tail;
    }
    shown.push_str(mask(rest));
    shown
}

fn mask(literal: &str) -> &str {
    match literal {
        "" => "",
        _ if SCHEMES.contains(&literal) => literal,
        _ => "…",
    }
}

/// Shows the variable that replaces the system's CA certificates, without a configured file.
fn add_authorities(config: &Config, sources: &Sources, settings: &mut [Setting]) {
    let ca_file = settings.iter_mut().find(|setting| setting.key == "egress.ca_file");
    if config.egress.from_environment
        && let (Some((name, place)), Some(ca_file)) =
            (find_first(&sources.env, AUTHORITIES), ca_file)
        && ca_file.value.is_null()
    {
        ca_file.otherwise = Some(format!("the authorities of {name}: {place}"));
        ca_file.origin = ValuePlace::Variable(name.to_owned());
    }
}

#[cfg(test)]
mod tests;
