//! The handshake of the legacy era: `initialize`, both ways. Page: basic/lifecycle.mdx
//! (2025-11-25).

use lockgate_text::json;
use serde_json::{Value, json};

use crate::capabilities::Offers;
use crate::revision::{Era, Revision};

/// The self-description of a server in its handshake, of either era.
#[derive(Clone, Debug)]
pub struct ServerDescription {
    pub offers: Offers,
    pub extensions: Option<Value>,
    pub instructions: Option<String>,
    pub name: String,
    pub version: String,
}

impl ServerDescription {
    /// Reads the description in a result, with the server's `Implementation`.
    pub(crate) fn read(result: &Value, info: Option<&Value>) -> Self {
        let capabilities = result.get("capabilities").unwrap_or(&Value::Null);
        Self {
            offers: Offers::of(capabilities),
            extensions: capabilities.get("extensions").cloned(),
            instructions: result["instructions"].as_str().map(str::to_owned),
            name: implementation_part(info, "name"),
            version: implementation_part(info, "version"),
        }
    }
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

/// Parses an `initialize` result: the revision, and the server.
///
/// # Errors
/// [`WelcomeError`]; the caller disconnects.
pub fn read_welcome(result: &[u8]) -> Result<(Revision, ServerDescription), WelcomeError> {
    let result = json::from_slice::<Value>(result).map_err(|_| WelcomeError::Json)?;
    let Some(Value::String(version)) = result.get("protocolVersion") else {
        return Err(WelcomeError::NoVersion);
    };
    let Some(revision) = parse_legacy(version) else {
        return Err(WelcomeError::Version(String::from_iter(version.chars().take(64))));
    };
    let mut server = ServerDescription::read(&result, result.get("serverInfo"));
    if revision == Revision::V2024_11_05 {
        server.offers.completions = true; // the method is older than the capability
    }
    Ok((revision, server))
}

/// Returns the revision of the response to `initialize`: the requested one if it is legacy,
/// otherwise the newest legacy one.
pub fn negotiate(requested: Option<&str>) -> Revision {
    requested.and_then(parse_legacy).unwrap_or(Revision::NEWEST_LEGACY)
}

fn parse_legacy(version: &str) -> Option<Revision> {
    Revision::parse(version).filter(|revision| revision.era() == Era::Legacy)
}

/// Returns a part of an `Implementation` object, shortened for display.
fn implementation_part(info: Option<&Value>, key: &str) -> String {
    let text = info.and_then(|info| info[key].as_str()).unwrap_or("?");
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
