//! The pieces of the modern era: `server/discover`, the version error, standard headers. Pages:
//! server/discover.mdx, basic/versioning.mdx, basic/transports/streamable-http.mdx (2026-07-28).

use lockgate_text::json;
use serde_json::{Value, json};

use crate::legacy::ServerDescription;
use crate::revision::{Era, Revision};

pub const VERSION_HEADER: &str = "mcp-protocol-version";
pub const METHOD_HEADER: &str = "mcp-method";
pub const NAME_HEADER: &str = "mcp-name";
pub const SESSION_HEADER: &str = "mcp-session-id";

/// The newest revision that two peers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    Modern(Revision),
    /// Only legacy revisions: open with `initialize`.
    Legacy,
    None,
}

/// Parses a `server/discover` result: the versions, and the server. Returns `None` if it has no
/// list of versions.
pub fn read_discovery(result: &[u8]) -> Option<(Vec<String>, ServerDescription)> {
    let result: Value = json::from_slice(result).ok()?;
    let versions = strings(result.get("supportedVersions")?)?;
    // In `_meta`, as the revision specifies.
    let info = result["_meta"].get(crate::meta::SERVER_INFO);
    let info = info.or_else(|| result.get("serverInfo"));
    Some((versions, ServerDescription::read(&result, info)))
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
    let data = data.and_then(|data| json::from_slice::<Value>(data).ok());
    data.and_then(|data| strings(data.get("supported")?)).unwrap_or_default()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    let strings = value.as_array()?.iter().take(32).filter_map(Value::as_str);
    Some(strings.map(str::to_owned).collect())
}

/// Returns the `data` of the gateway's version error.
pub fn version_error(requested: &str) -> Value {
    let modern = Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Modern);
    let supported: Vec<_> = modern.map(Revision::as_str).collect();
    let requested = String::from_iter(requested.chars().take(64));
    json!({"supported": supported, "requested": requested})
}
