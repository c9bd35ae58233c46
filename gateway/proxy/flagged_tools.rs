//! Tools that need an operator's review: new, changed, or with suspicious text.

use std::collections::HashSet;
use std::sync::Arc;

use lockgate_policy::pin::{self, Finding, Lock, Pin, Pins, Reaction, Standing};
use serde_json::{Map, Value};

use crate::catalog::{Catalog, CatalogEntry};
use crate::inspect::{Inspected, name_in_lock};

/// Flagged tools that are logged individually at a time; the rest are counted.
const MAX_TOLD: usize = 50;

/// A tool that needs an operator's review.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlaggedTool {
    /// The server's qualified name.
    pub server: String,
    pub slug: String,
    /// The tool's name as exposed to clients.
    pub exposed: String,
    /// The organisation that added the server; `None` for the operator's servers.
    pub organisation: Option<Arc<str>>,
    /// The server's own name for the tool.
    pub tool: String,
    /// How the tool compares with the lock file; `None` if there is no lock file.
    pub standing: Option<Standing>,
    pub fingerprint: String,
    /// Neither listed nor callable.
    pub quarantined: bool,
    pub findings: Vec<Finding>,
}

/// A tool that differs from its approved definition.
#[derive(Clone, Debug)]
pub struct PinChange {
    pub flagged_tool: FlaggedTool,
    /// The server's name in the lock file.
    pub lock_server: String,
    /// Descriptions of the differences.
    pub changes: Vec<String>,
    /// The approved definition, if any.
    pub before: Option<Value>,
    /// The current definition.
    pub pin: Pin,
}

/// Returns the tools that differ from the lock file.
pub(crate) fn pin_changes(catalog: &Catalog, lock: &Lock) -> Vec<PinChange> {
    let nothing = Value::Object(Map::new());
    let mut all = Vec::new();
    for entry in catalog.pinned() {
        let Some(inspected) = &entry.inspected else { continue };
        if is_approved(inspected) {
            continue;
        }
        let Some(flagged_tool) = flagged_tool(entry) else { continue };
        let Ok(pin) = Pin::of(inspected.original()) else { continue };
        let lock_server = name_in_lock(&*entry.server).into_owned();
        let known = lock.pin(&lock_server, &flagged_tool.tool);
        let before = known.map(|known| known.definition.clone());
        let changes = pin::changes(before.as_ref().unwrap_or(&nothing), &pin.definition);
        all.push(PinChange { flagged_tool, lock_server, changes, before, pin });
    }
    all
}

/// Returns the tools that are new, changed or have findings.
pub(crate) fn flagged_tools(catalog: &Catalog) -> Vec<FlaggedTool> {
    catalog.pinned().filter_map(|entry| flagged_tool(entry)).collect()
}

/// Returns whether a tool matches its approved definition, or pinning is off.
fn is_approved(inspected: &Inspected) -> bool {
    matches!(inspected.standing, None | Some(Standing::Approved))
}

fn flagged_tool(entry: &CatalogEntry) -> Option<FlaggedTool> {
    let inspected = entry.inspected.as_ref()?;
    if is_approved(inspected) && inspected.findings.is_empty() {
        return None;
    }
    Some(FlaggedTool {
        server: entry.server.qualified_name().into_owned(),
        slug: entry.server.slug().to_owned(),
        exposed: entry.exposed.to_string(),
        organisation: entry.server.organisation().cloned(),
        tool: entry.item.key.to_string(),
        standing: inspected.standing,
        fingerprint: inspected.fingerprint.clone(),
        quarantined: inspected.quarantined,
        findings: inspected.findings.clone(),
    })
}

/// Logs flagged tools that were not in the catalog before.
pub(crate) fn log_new_flagged_tools(before: &Catalog, after: &Catalog, pins: &Pins) {
    let known: HashSet<FlaggedTool> = flagged_tools(before).into_iter().collect();
    let mut fresh =
        flagged_tools(after).into_iter().filter(|flagged_tool| !known.contains(flagged_tool));
    for flagged_tool in fresh.by_ref().take(MAX_TOLD) {
        let FlaggedTool { server, tool, standing, quarantined, findings, .. } = flagged_tool;
        let told = match standing {
            None | Some(Standing::Approved | Standing::Rejected) => false,
            Some(standing) => pins.reaction(standing) != Reaction::Allow,
        };
        let standing = standing.map_or("not pinned", |standing| standing.as_str());
        let finding = findings.first().map(ToString::to_string);
        let advice = if quarantined {
            "tool quarantined; see `lockgate pins diff`"
        } else {
            "review this tool; see `lockgate tools` and `lockgate pins diff`"
        };
        if quarantined || told || standing == "not pinned" {
            tracing::warn!(server, tool, standing, finding, "{advice}");
        }
    }
    let more = fresh.count();
    if more > 0 {
        tracing::warn!(more, "review further tools; see `lockgate tools` and `lockgate pins diff`");
    }
}
