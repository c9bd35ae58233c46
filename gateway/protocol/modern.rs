//! The pieces of the modern era: `server/discover`, the version error, standard headers. Pages:
//! server/discover.mdx, basic/versioning.mdx, basic/transports/streamable-http.mdx (2026-07-28).

use serde_json::{Value, json};

use crate::capabilities::Offers;
use crate::legacy::{implementation, text};
use crate::revision::{Era, Revision};

pub const VERSION_HEADER: &str = "mcp-protocol-version";
pub const METHOD_HEADER: &str = "mcp-method";
pub const NAME_HEADER: &str = "mcp-name";
pub const SESSION_HEADER: &str = "mcp-session-id";

/// The contents of a server's `server/discover` result.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub versions: Vec<String>,
    pub offers: Offers,
    pub extensions: Option<Value>,
    pub instructions: Option<String>,
    pub name: String,
    pub version: String,
}

/// The newest revision that two peers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    Modern(Revision),
    /// Only legacy revisions: open with `initialize`.
    Legacy,
    None,
}

/// Parses a `server/discover` result; `None` if it has no list of versions.
pub fn read_discovery(result: &[u8]) -> Option<Discovery> {
    let result: Value = serde_json::from_slice(result).ok()?;
    let versions = strings(result.get("supportedVersions")?)?;
    let capabilities = result.get("capabilities").unwrap_or(&Value::Null);
    let info = server_info(&result).or_else(|| result.get("serverInfo"));
    let (name, version) = implementation(info);
    Some(Discovery {
        versions,
        offers: Offers::of(capabilities),
        extensions: capabilities.get("extensions").cloned(),
        instructions: text(&result, "instructions"),
        name,
        version,
    })
}

/// Returns the server's info from `_meta`, as the revision specifies.
fn server_info(result: &Value) -> Option<&Value> {
    result.get("_meta")?.get(crate::meta::SERVER_INFO)
}

/// Returns the newest supported revision in `versions`, modern ones first.
pub fn common(versions: &[String]) -> Common {
    let mut legacy = false;
    for revision in Revision::ALL.into_iter().rev() {
        if !versions.iter().any(|version| version == revision.as_str()) {
            continue;
        }
        match revision.era() {
            Era::Modern => return Common::Modern(revision),
            Era::Legacy => legacy = true,
        }
    }
    if legacy { Common::Legacy } else { Common::None }
}

/// Returns `data.supported` of a -32022 error (JSON text of `data`).
pub fn supported(data: Option<&[u8]>) -> Vec<String> {
    let Some(data) = data else { return Vec::new() };
    let Ok(data) = serde_json::from_slice::<Value>(data) else { return Vec::new() };
    let Some(supported) = data.get("supported") else { return Vec::new() };
    strings(supported).unwrap_or_default()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    let mut strings = Vec::new();
    for item in value.as_array()?.iter().take(32) {
        if let Some(text) = item.as_str() {
            strings.push(text.to_owned());
        }
    }
    Some(strings)
}

/// Returns the `data` of the gateway's version error.
pub fn version_error(requested: &str) -> Value {
    let mut supported = Vec::new();
    for revision in Revision::ALL {
        if revision.era() == Era::Modern {
            supported.push(revision.as_str());
        }
    }
    let requested = String::from_iter(requested.chars().take(64));
    json!({"supported": supported, "requested": requested})
}
