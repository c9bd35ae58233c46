//! Integrations from the registry that the operator names (registry API v0.1): remote servers at a
//! fixed version, never programs. The registry's entry becomes a custom integration, which later
//! changes of the entry do not affect.

use std::collections::BTreeMap;

use lockgate_registry::Secret;

use super::create_custom_integration;
use super::input::{AuthMethod, NewCustomIntegration};
use super::validate::enter_probe;
use super::view::Integration;
use crate::api::body::segment_of;
use crate::api::operation::*;

const BEARER: &str = "Bearer ";
/// Maximum bytes of a name, a version or an address of a registry.
const MAX_TEXT: usize = 2048;
/// Maximum number of values that a server may require.
const MAX_INPUTS: usize = 32;

types! {
/// A remote server of the operator's registry, at one version.
output pub(crate) struct RegistryServer {
    pub(crate) server: String,
    pub(crate) version: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// Its address, with the names of inputs in braces.
    pub(crate) url: String,
    /// The header of its credential.
    pub(crate) header_name: Option<String>,
    #[serde(skip)]
    header_value: String,
    /// The values that it requires.
    pub(crate) inputs: Vec<RegistryInput>,
}

/// A value that a server of a registry requires.
#[derive(PartialEq, Eq)]
output pub(crate) struct RegistryInput {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Whether it is stored encrypted, and never shown again.
    pub(crate) is_secret: bool,
    pub(crate) default: String,
    /// The permitted values; any if empty.
    pub(crate) choices: Vec<String>,
}

filter pub(crate) struct RegistryQuery {
    /// The name, such as `com.example/files`.
    pub(crate) server: String,
    /// Default: the latest version.
    pub(crate) version: Option<String>,
}

/// An integration from the operator's registry.
input pub(crate) struct NewRegistryIntegration {
    /// The name in the registry, such as `com.example/files`.
    server: String,
    /// The version in the registry.
    version: String,
    /// The address that was shown, with the names of inputs in braces. If the registry has another
    /// by now, nothing is added.
    url: Option<String>,
    /// Display name; unique in the organisation. Default: the title in the registry.
    name: Option<String>,
    /// The required values, by the names of the inputs. Secrets are never shown again.
    #[serde(default)]
    #[cfg_attr(test, schema(write_only))]
    inputs: BTreeMap<String, String>,
    /// The namespace of its tools. Default: derived from the name.
    slug: Option<String>,
    /// Test the server first, and store nothing if the test fails. Default `false`.
    validate: Option<bool>,
}
}

pub(crate) async fn show_registry_server(
    by: By<Admin>,
    Query(RegistryQuery { server, version }): Query<RegistryQuery>,
) -> Result<Json<RegistryServer>> {
    Ok(Json(fetch(&by, &server, version.as_deref().unwrap_or("latest")).await?))
}

pub(crate) async fn create_registry_integration(
    by: By<Admin>,
    Body(body): Body<NewRegistryIntegration>,
) -> Result<Reply<Integration>> {
    let found = fetch(&by, &body.server, &body.version).await?;
    if found.version != body.version {
        return Err(Problem::in_body("/version", "`version` must be a version, not a name of one"));
    }
    create_custom_integration(by, Body(found.fill(body)?)).await
}

async fn fetch(by: &By<Admin>, name: &str, version: &str) -> Result<RegistryServer> {
    let Some(mut url) = by.state.operations.settings().import_registry.clone() else {
        let detail = "the operator has named no registry (`import_registry`)";
        return Err(Problem::not_found("NO_REGISTRY", detail));
    };
    if !is_segment(name) || !is_segment(version) {
        return Err(Problem::not_found("REGISTRY_SERVER_NOT_FOUND", "there is no such server"));
    }
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["v0.1", "servers", name, "versions", version]);
    }
    let _permit = enter_probe(&by.state, by.caller.organisation())?;
    let found = by.state.operations.fetch_document(url).await.map_err(|reason| {
        if reason.contains("status is 404") {
            return Problem::not_found("REGISTRY_SERVER_NOT_FOUND", "there is no such server");
        }
        tracing::warn!(%reason, "the registry of `admin.import_registry` cannot be read");
        let detail = "the registry cannot be read; the operator finds the reason in the log";
        Problem::new(StatusCode::BAD_GATEWAY, "REGISTRY_FAILED", detail)
    })?;
    RegistryServer::read(name, &found["server"]).map_err(|reason| {
        let detail = format!("the registry: {name:.200} {reason}");
        Problem::new(StatusCode::BAD_GATEWAY, "REGISTRY_FAILED", detail)
    })
}

/// Returns whether a text is a segment of a path.
fn is_segment(text: &str) -> bool {
    text.len() <= MAX_TEXT
        && text.bytes().all(|b| b.is_ascii_graphic())
        && !matches!(text, "" | "." | "..")
}

impl RegistryServer {
    fn read(name: &str, server: &Value) -> Result<Self, String> {
        if server["name"] != name {
            return Err("is another server".into());
        }
        let version = text(&server["version"]);
        if version.is_empty() {
            return Err("has no version".into());
        }
        let remotes = list(&server["remotes"]);
        let Some(remote) = remotes.iter().find(|remote| remote["type"] == "streamable-http") else {
            return Err("has no `remotes` for Streamable HTTP; it may be a program".into());
        };
        let mut found = Self {
            server: name.to_owned(),
            title: match text(&server["title"]) {
                title if title.is_empty() => name.rsplit('/').next().unwrap_or(name).to_owned(),
                title => title,
            },
            version,
            description: text(&server["description"]),
            url: text(&remote["url"]),
            header_name: None,
            header_value: String::new(),
            inputs: Vec::new(),
        };
        let url = found.url.clone();
        found.add_inputs(&url, &remote["variables"])?;
        if found.inputs.iter().any(|input| input.is_secret) {
            return Err("has a secret in its address, which cannot be stored encrypted".into());
        }
        for header in list(&remote["headers"]) {
            let header_name = text(&header["name"]);
            let value = match header["value"].as_str() {
                Some(value) => value.to_owned(),
                None if header["isRequired"] == true => format!("{{{header_name}}}"),
                None => continue,
            };
            if found.header_name.replace(header_name.clone()).is_some() {
                return Err("requires several headers; the operator can configure it".into());
            }
            if header["value"].is_string() {
                found.add_inputs(&value, &header["variables"])?;
            } else {
                found.add_input(&header_name, header)?;
            }
            found.header_value = value;
        }
        Ok(found)
    }

    /// Adds the variables of a template.
    fn add_inputs(&mut self, template: &str, variables: &Value) -> Result<(), String> {
        if template.len() > MAX_TEXT {
            return Err(format!("has a template of more than {MAX_TEXT} bytes"));
        }
        for part in template.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else {
                return Err("has a template without a closing brace".into());
            };
            if !self.inputs.iter().any(|input| input.name == name) {
                self.add_input(name, &variables[name])?;
            }
        }
        Ok(())
    }

    fn add_input(&mut self, name: &str, described: &Value) -> Result<(), String> {
        if self.inputs.len() >= MAX_INPUTS {
            return Err(format!("requires more than {MAX_INPUTS} values"));
        }
        self.inputs.push(RegistryInput::new(name, described));
        Ok(())
    }

    /// Returns the integration with the given values.
    fn fill(self, given: NewRegistryIntegration) -> Result<NewCustomIntegration> {
        if given.url.is_some_and(|url| url != self.url) {
            let detail = "the address has changed: read the entry again";
            return Err(Problem::in_body("/url", detail));
        }
        let mut values = given.inputs;
        if let Some(name) = values.keys().find(|name| !self.inputs.iter().any(|i| i.name == **name))
        {
            return Err(wrong_input(name, "is not a value that the server requires"));
        }
        for input in &self.inputs {
            let value = values.entry(input.name.clone()).or_insert_with(|| input.default.clone());
            if value.is_empty() {
                return Err(wrong_input(&input.name, "is required"));
            }
            if !input.choices.is_empty() && !input.choices.contains(value) {
                let words = format!("must be one of {}", input.choices.join(", "));
                return Err(wrong_input(&input.name, &words));
            }
            let is_in_url = self.url.contains(&format!("{{{}}}", input.name));
            if is_in_url && !value.bytes().all(is_unreserved) {
                let words = "must be letters, digits, `-`, `.`, `_` and `~`, as part of an address";
                return Err(wrong_input(&input.name, words));
            }
        }
        let value = fill(&self.header_value, &values);
        let (auth_method, header_name, credentials) = match self.header_name {
            None => (AuthMethod::None, None, None),
            Some(name) => match value.strip_prefix(BEARER) {
                Some(token) if name.eq_ignore_ascii_case("authorization") => {
                    (AuthMethod::BearerToken, None, Some(Secret::new(token.to_owned())))
                }
                _ => (AuthMethod::ApiKey, Some(name), Some(Secret::new(value))),
            },
        };
        Ok(NewCustomIntegration {
            name: given.name.unwrap_or(self.title),
            server_url: fill(&self.url, &values),
            auth_method,
            header_name,
            credentials,
            slug: given.slug,
            enabled: None,
            validate: given.validate,
            source: Some(format!("{}@{}", self.server, self.version)),
        })
    }
}

impl RegistryInput {
    fn new(name: &str, described: &Value) -> Self {
        Self {
            name: name.to_owned(),
            description: text(&described["description"]),
            is_secret: described["isSecret"] == true,
            default: text(&described["default"]),
            choices: list(&described["choices"]).iter().map(text).collect(),
        }
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns a short text without control characters; empty for anything else.
fn text(value: &Value) -> String {
    let text = value.as_str().unwrap_or("");
    if text.len() > MAX_TEXT || text.contains(char::is_control) {
        String::new()
    } else {
        text.into()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Replaces `{name}` by the value of this name. Values are not templates.
fn fill(template: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (at, part) in template.split('{').enumerate() {
        let (name, rest) = part.split_once('}').unwrap_or(("", part));
        if at > 0 {
            out.push_str(values.get(name).map_or("", String::as_str));
        }
        out.push_str(if at > 0 { rest } else { part });
    }
    out
}

fn wrong_input(name: &str, words: &str) -> Problem {
    Problem::in_body(&format!("/inputs{}", segment_of(name)), format!("`{name:.100}` {words}"))
}

#[cfg(test)]
mod tests;
