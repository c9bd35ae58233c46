//! `system/tools`: the built-in tools visible to the caller, with statistics of their runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_upstream::{CallerView, ListKind};
use serde_json::{Value, json};

use super::caller_view;
use crate::registry::{DEFAULT_ORGANISATION, RegisteredTool, Registry};
use crate::stats::Stats;
use crate::tool::{Arguments, Client, Effect, Output, Tool, ToolError, ToolSpec, first_chars};

/// `Weak`, because the registry holds this tool.
pub(super) struct Tools {
    registry: Weak<Registry>,
    stats: Arc<Stats>,
}

impl Tools {
    pub(super) fn new(registry: &Arc<Registry>, stats: &Arc<Stats>) -> Self {
        Self { registry: Arc::downgrade(registry), stats: Arc::clone(stats) }
    }

    /// Describes a tool with the runs of an organisation, or of all for `None`.
    fn describe(&self, entry: &RegisteredTool, whole: bool, organisation: Option<&str>) -> Value {
        let spec = &entry.spec;
        let figures = self.stats.get(&entry.name, organisation);
        let mut tool = json!({
            "name": &*entry.name,
            "title": spec.title,
            "version": spec.version,
            "tags": spec.tags,
            "permissions": spec.permissions,
            "readOnly": spec.effect == Effect::Reads,
            "timeoutSeconds": spec.timeout.as_secs(),
            "runs": {
                "invocations": figures.invocations,
                "successes": figures.successes,
                "failures": figures.failures,
                "cancelled": figures.cancelled,
                "averageMs": milliseconds(figures.average),
                "p95Ms": milliseconds(figures.p95),
                "lastInvokedUnix": figures.last.and_then(unix_seconds),
            },
        });
        if whole {
            let item = spec.list_item();
            for key in ["description", "inputSchema", "outputSchema", "annotations"] {
                tool[key] = item[key].clone();
            }
        }
        tool
    }
}

impl Tool for Tools {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/tools",
            "Built-in tools",
            "Lists the gateway's built-in tools that you can use, their number, and the calls and \
                durations of each. Give `category` for one category, or `name` (such as \
                `file/read`) for one tool with its schemas.",
        )
        .input(
            json!({
                "category": {
                    "type": "string",
                    "maxLength": 64,
                    "description": "Such as `file` or `system`",
                },
                "name": {
                    "type": "string",
                    "maxLength": 200,
                    "description": "`category/name` of one tool, or `category__name`",
                },
            }),
            &[],
        )
        .output(
            json!({
                "count": {"type": "integer"},
                "categories": {"type": "object", "additionalProperties": {"type": "integer"}},
                "tools": {"type": "array", "items": {"type": "object"}}
            }),
            &["count", "categories", "tools"],
        )
        .tags(&["system"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let Some(registry) = self.registry.upgrade() else {
            return Err(ToolError::new("the gateway is stopping"));
        };
        let view = caller_view(&client)?;
        let mut shown = visible(&registry, view);
        let mut categories: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &shown {
            *categories.entry(entry.spec.category()).or_default() += 1;
        }
        let categories = json!(categories);
        if let Some(category) = arguments.maybe_text("category") {
            shown.retain(|entry| entry.spec.category() == category);
        }
        let name = arguments.maybe_text("name");
        if let Some(name) = name {
            // Also accepts the name that clients see.
            let own = name.replacen("__", "/", 1);
            shown.retain(|entry| *entry.name == *own);
            if shown.is_empty() {
                let name = first_chars(name, 80);
                return Err(ToolError(format!(
                    "there is no built-in tool `{name}`; call without `name` for all"
                )));
            }
        }
        let organisation = if view.is_operator() {
            None
        } else {
            Some(view.organisation().unwrap_or(DEFAULT_ORGANISATION))
        };
        let tools: Vec<_> =
            shown.iter().map(|entry| self.describe(entry, name.is_some(), organisation)).collect();
        Ok(json!({"count": tools.len(), "categories": categories, "tools": tools}).into())
    }
}

fn unix_seconds(at: SystemTime) -> Option<u64> {
    Some(at.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Returns the registered tools in the caller's list.
fn visible(registry: &Registry, caller_view: &dyn CallerView) -> Vec<Arc<RegisteredTool>> {
    let mut builtin = BTreeSet::new();
    for server in caller_view.servers() {
        if let Some(peer) = &server.status().peer
            && peer.transport == "builtin"
        {
            builtin.insert(server.slug().to_owned());
        }
    }
    let mut names = BTreeSet::new();
    for seen in caller_view.items(ListKind::Tools) {
        if !builtin.contains(&*seen.slug) {
            continue;
        }
        let Ok(item) = serde_json::from_slice::<Value>(&seen.text) else { continue };
        if let Some(Value::String(own)) = item.get("name") {
            names.insert(format!("{}/{own}", seen.slug));
        }
    }
    let mut entries = registry.all();
    entries.retain(|entry| names.contains(&*entry.name));
    entries
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
