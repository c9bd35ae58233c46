//! Built-in tools: their metadata beside MCP, their category, and aliases of their arguments, which
//! are the names in tRPC's procedures.

use lockgate_protocol::method::Method;
use lockgate_upstream::Upstream;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::access::Caller;
use super::call::Params;
use super::problem::Problem;
use super::state::ApiState;

/// The transport of built-in servers.
const BUILTIN: &str = "builtin";

/// Aliases of arguments, each with the tool's own name.
type Spellings = &'static [(&'static str, &'static str)];

/// By the name of the tool.
const SPELLINGS: &[(&str, Spellings)] = &[
    ("file/list", &[("includeHidden", "hidden")]),
    ("shell/execute", &[("timeout", "timeout_ms")]),
    ("web/request", &[("timeout", "timeout_ms")]),
    ("web/fetch", &[("timeout", "timeout_ms")]),
    ("database/query", &[("query", "sql"), ("params", "parameters")]),
];

/// Returns the argument aliases of a built-in tool, by its name `category/name`.
pub(crate) fn find_spellings(tool: &str) -> Spellings {
    let found = SPELLINGS.iter().find(|(name, _)| *name == tool);
    found.map_or(&[], |(_, spellings)| *spellings)
}

/// The gateway's metadata of its own tools, beside MCP.
#[derive(Default, Deserialize)]
pub(crate) struct OwnWords {
    #[serde(rename = "lockgate/version")]
    pub(crate) version: Option<String>,
    #[serde(default, rename = "lockgate/tags")]
    pub(crate) tags: Vec<String>,
    #[serde(default, rename = "lockgate/permissions")]
    pub(crate) permissions: Vec<String>,
}

impl OwnWords {
    /// Reads the metadata of a built-in tool. Other servers could write anything there.
    pub(crate) fn read(server: &dyn Upstream, meta: Option<&Value>) -> Self {
        let status = server.status();
        match (&status.peer, meta) {
            (Some(peer), Some(meta)) if peer.transport == BUILTIN => {
                Self::deserialize(meta).unwrap_or_default()
            }
            _ => Self::default(),
        }
    }
}

/// Returns whether the visible server of this name is a built-in server, which has the name of its
/// category. `None` if the caller sees no server of this name.
pub(crate) fn is_category(state: &ApiState, caller: &Caller, category: &str) -> Option<bool> {
    let servers = state.gateway.visible_servers(&caller.principal);
    let server = servers.iter().find(|server| server.slug() == category)?;
    let status = server.status();
    // The transport is unknown until the server has connected.
    let is_builtin = status.peer.as_ref().is_none_or(|peer| peer.transport == BUILTIN);
    Some(is_builtin && server.organisation().is_none())
}

/// Renames aliases of built-in tools' arguments, as in tRPC's procedures, to the tools' own names,
/// which policies refer to.
pub(crate) fn rename_arguments(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    given: Box<RawValue>,
) -> Result<Box<RawValue>, Problem> {
    let gateway = &state.gateway;
    let Some((server, own)) = gateway.find_target(&caller.principal, Method::ToolsCall, name)
    else {
        return Ok(given);
    };
    let is_builtin = server.status().peer.as_ref().is_some_and(|peer| peer.transport == BUILTIN);
    let names = find_spellings(&format!("{}/{own}", server.slug()));
    if !is_builtin || names.is_empty() {
        return Ok(given);
    }
    let Ok(mut arguments) = serde_json::from_str::<Params>(given.get()) else { return Ok(given) };
    for (spelling, own) in names {
        let Some(value) = arguments.remove(*spelling) else { continue };
        if arguments.insert((*own).to_owned(), value).is_some() {
            let detail = format!("is another spelling of `{own}`: send only one of them");
            return Err(Problem::in_body(&format!("/arguments/{spelling}"), detail));
        }
    }
    to_raw_value(&arguments).or_else(|_| Ok(given))
}
