//! The handshake of the legacy era: `initialize`, both ways. Page: basic/lifecycle.mdx
//! (2025-11-25).

use serde_json::{Value, json};

use crate::capabilities::Offers;
use crate::revision::{Era, Revision};

/// The contents of a server's `initialize` result.
#[derive(Clone, Debug)]
pub struct Welcome {
    pub revision: Revision,
    pub offers: Offers,
    pub extensions: Option<Value>,
    pub instructions: Option<String>,
    pub name: String,
    pub version: String,
}

/// The reason why a handshake result is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WelcomeError {
    #[error("the result has no `protocolVersion`")]
    NoVersion,
    #[error("the server requires protocol version {0:?}, which the gateway does not support")]
    Version(String),
    #[error("the result is not JSON")]
    Json,
}

/// Returns the `params` of the gateway's `initialize`.
pub fn initialize_params(revision: Revision, capabilities: &Value, info: &Value) -> Value {
    json!({"protocolVersion": revision.as_str(), "capabilities": capabilities, "clientInfo": info})
}

/// Parses an `initialize` result.
///
/// # Errors
/// [`WelcomeError`]; the caller disconnects.
pub fn read_welcome(result: &[u8]) -> Result<Welcome, WelcomeError> {
    let Ok(result) = serde_json::from_slice::<Value>(result) else {
        return Err(WelcomeError::Json);
    };
    let Some(Value::String(version)) = result.get("protocolVersion") else {
        return Err(WelcomeError::NoVersion);
    };
    let Some(revision) = parse_legacy(version) else {
        return Err(WelcomeError::Version(String::from_iter(version.chars().take(64))));
    };
    let capabilities = result.get("capabilities").unwrap_or(&Value::Null);
    let mut offers = Offers::of(capabilities);
    if revision == Revision::V2024_11_05 {
        offers.completions = true; // the method is older than the capability
    }
    let (name, version) = implementation(result.get("serverInfo"));
    Ok(Welcome {
        revision,
        offers,
        extensions: capabilities.get("extensions").cloned(),
        instructions: text(&result, "instructions"),
        name,
        version,
    })
}

/// Returns the revision of the response to `initialize`: the requested one if it is legacy,
/// otherwise the newest legacy one.
pub fn negotiate(requested: Option<&str>) -> Revision {
    if let Some(version) = requested
        && let Some(revision) = parse_legacy(version)
    {
        return revision;
    }
    Revision::NEWEST_LEGACY
}

fn parse_legacy(version: &str) -> Option<Revision> {
    let revision = Revision::parse(version)?;
    match revision.era() {
        Era::Legacy => Some(revision),
        Era::Modern => None,
    }
}

/// Returns name and version of an `Implementation` object, shortened for display.
pub(crate) fn implementation(info: Option<&Value>) -> (String, String) {
    (implementation_part(info, "name"), implementation_part(info, "version"))
}

fn implementation_part(info: Option<&Value>, key: &str) -> String {
    let text = match info {
        Some(info) => info[key].as_str().unwrap_or("?"),
        None => "?",
    };
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

pub(crate) fn text(value: &Value, key: &str) -> Option<String> {
    Some(value.get(key)?.as_str()?.to_owned())
}
