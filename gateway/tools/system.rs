//! The `system` server: the gateway, the state of its servers, the built-in tools, and resources
//! for clients that only support tools. Shows only items that the caller may see anyway; never
//! secrets, command lines, addresses or the output of a failing server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use lockgate_protocol::revision::Revision;
use lockgate_text::{date, json};
use lockgate_upstream::{CallerView, ListKind, UNREADABLE_LISTS, Upstream, UpstreamState};
use serde_json::{Value, json};

use crate::About;
use crate::registry::{DEFAULT_ORGANISATION, RegisteredTool, Registry};
use crate::server::ServerDefinition;
use crate::tool::{
    Arguments, Client, Effect, Output, STRICT, Tool, ToolError, ToolSpec, first_chars, milliseconds,
};

pub(crate) fn build(about: &About, registry: &Arc<Registry>) -> ServerDefinition {
    ServerDefinition {
        instructions:
            "Use these tools to identify this gateway and to find the reason for a missing server."
                .into(),
        tools: vec![
            Box::new(Info(about.clone())),
            Box::new(Health(about.clone())),
            Box::new(Servers),
            Box::new(Tools { registry: Arc::downgrade(registry) }),
            Box::new(List),
            Box::new(Read),
        ],
        ..ServerDefinition::default()
    }
}

fn caller_view<'a>(client: &Client<'a>) -> Result<&'a dyn CallerView, ToolError> {
    client
        .caller_view
        .ok_or_else(|| ToolError::new("the call has no caller, so there is nothing to show"))
}

struct Info(About);

impl Tool for Info {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/info",
            "Gateway information",
            "Returns this gateway's name, version, uptime in seconds, protocol revisions and \
                platform.",
        )
        .output(json!({
            "name": "string", "version": "string", "uptimeSeconds": "integer",
            "revisions": {"type": "array", "items": {"type": "string"}}, "platform": "string",
        }))
        .tags(&["system"])
    }

    async fn run(&self, _: Arguments, _: Client<'_>) -> Result<Output, ToolError> {
        let revisions: Vec<_> = Revision::ALL.iter().map(|r| r.as_str()).collect();
        Ok(json!({
            "name": self.0.name,
            "version": self.0.version,
            "uptimeSeconds": self.0.started.elapsed().as_secs(),
            "revisions": revisions,
            "platform": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        })
        .into())
    }
}

struct Health(About);

impl Tool for Health {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/health",
            "Health",
            "Returns whether all servers that you can see are available: `ok`, `degraded` (some \
                are missing) or `down` (all are), with the number in each state and the names of \
                the missing ones. Call `system/servers` for details.",
        )
        .output(json!({
            "status": {"enum": ["ok", "degraded", "down"]}, "uptimeSeconds": "integer",
            "servers": {"type": "object", "additionalProperties": {"type": "integer"}},
            "missing": {"type": "array", "items": {"type": "string"}},
        }))
        .tags(&["system"])
    }

    async fn run(&self, _: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        let mut missing = Vec::new();
        let servers = caller_view(&client)?.servers();
        for server in &servers {
            let state = server.status().state;
            *states.entry(state.as_str()).or_default() += 1;
            if !matches!(
                state,
                UpstreamState::Connected | UpstreamState::Disabled | UpstreamState::Resting
            ) {
                missing.push(server.slug().to_owned());
            }
        }
        let status = match missing.len() {
            0 => "ok",
            n if n < servers.len() => "degraded",
            _ => "down",
        };
        let uptime = self.0.started.elapsed().as_secs();
        Ok(json!({
            "status": status,
            "uptimeSeconds": uptime,
            "servers": states,
            "missing": missing,
        })
        .into())
    }
}

struct Servers;

impl Tool for Servers {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/servers",
            "Servers behind the gateway",
            "Returns for each server that you can see whether it is connected, its protocol era, \
                the number of its items, its load and limits, and for a missing server the failed \
                stage and the reason.",
        )
        .output(json!({"servers": {"type": "array", "items": {"type": "object"}}}))
        .tags(&["system"])
    }

    async fn run(&self, _: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let caller_view = caller_view(&client)?;
        let mut counts: BTreeMap<Arc<str>, [usize; ListKind::COUNT]> = BTreeMap::new();
        for (at, kind) in ListKind::ALL.into_iter().enumerate() {
            for seen in caller_view.items(kind) {
                counts.entry(seen.slug).or_default()[at] += 1;
            }
        }
        let mut all = Vec::new();
        for server in caller_view.servers() {
            let counts = counts.get(server.slug()).unwrap_or(&[0; ListKind::COUNT]);
            let mut described = describe_server(&*server, *counts);
            if described["failedStage"].is_null() && caller_view.calls_fail(&*server) {
                described["failedStage"] = "call".into();
                described["failedReason"] = "most recent calls failed".into();
            }
            all.push(described);
        }
        Ok(json!({"servers": all}).into())
    }
}

fn describe_server(
    server: &dyn Upstream,
    [tools, prompts, resources, templates, skills]: [usize; ListKind::COUNT],
) -> Value {
    let status = server.status();
    let mut described = json!({
        "name": server.slug(),
        "state": status.state.as_str(),
        "era": null,
        "revision": null,
        "transport": null,
        "tools": tools,
        "prompts": prompts,
        "resources": resources,
        "templates": templates,
        "skills": skills,
        "failedStage": null,
        "failedReason": null,
        "load": server.stats().map(|stats| stats.json()),
    });
    if let Some(peer) = &status.peer {
        described["era"] = peer.era.as_str().into();
        described["revision"] = peer.revision.as_str().into();
        described["transport"] = peer.transport.into();
    }
    if let Some(trouble) = &status.trouble {
        described["failedStage"] = trouble.step().into();
        described["failedReason"] = trouble.reason().into();
    } else if status.fails_to_list() {
        described["failedStage"] = "list".into();
        described["failedReason"] = UNREADABLE_LISTS.into();
    }
    described
}

// `system/resources` and `system/read_resource`: resources for clients that only support tools.
// Lists the same items as the caller's own `resources/list`; a read is authorised like the
// caller's own `resources/read`.

/// Maximum number of items per page.
const MAX_PAGE: u64 = 200;

struct List;

impl Tool for List {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/resources",
            "Resources",
            "Lists the resources and resource templates of all servers that you can see, with the \
                URI for `system/read_resource`. `next` is the `offset` of the next page, if any.",
        )
        .input(json!({
            "server?": {
                "type": "string", "maxLength": 64, "description": "Only those of this server",
            },
            "offset?": {"type": "integer", "minimum": 0, "default": 0},
            "limit?": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50},
        }))
        .output(json!({
            "count": "integer", "resources": {"type": "array", "items": {"type": "object"}},
            "next?": "integer",
        }))
        .tags(&["system"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let caller_view = caller_view(&client)?;
        let server = arguments.maybe_text("server");
        let offset = arguments.count("offset")?;
        let limit = arguments.count("limit")?;
        let mut all = Vec::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            for seen in caller_view.items(kind) {
                if server.is_none_or(|server| *seen.slug == *server) {
                    all.push((kind, seen));
                }
            }
        }
        let mut page = Vec::new();
        for (kind, seen) in all.iter().skip(offset).take(limit) {
            let Ok(mut item) = json::from_slice::<Value>(&seen.text) else { continue };
            let mut entry = json!({"server": &*seen.slug, kind.key(): &*seen.exposed});
            for key in ["name", "title", "description", "mimeType", "size"] {
                if let Some(value) = item.get_mut(key) {
                    entry[key] = value.take();
                }
            }
            page.push(entry);
        }
        let end = offset.saturating_add(limit);
        let mut result = json!({"count": all.len(), "resources": page});
        if end < all.len() {
            result["next"] = end.into();
        }
        Ok(result.into())
    }
}

struct Read;

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/read_resource",
            "Read a resource",
            "Reads one resource by a URI from `system/resources`, or one made from a template \
                there. Returns its contents: `text`, or `blob` in base64.",
        )
        .input(json!({"uri": {"type": "string", "minLength": 1, "maxLength": 4096}}))
        .output(json!({"contents": {"type": "array", "items": {"type": "object"}}}))
        .tags(&["system"])
        .asks_servers()
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let result = caller_view(&client)?.read(arguments.text("uri")?).await?;
        let Ok(mut result) = STRICT.read(&result) else {
            return Err(ToolError::new("the server's answer cannot be read"));
        };
        match result.get_mut("contents") {
            Some(contents) => Ok(json!({"contents": contents.take()}).into()),
            None => Err(ToolError::new("the server requires input before it answers")),
        }
    }
}

/// `Weak`, because the registry holds this tool.
struct Tools {
    registry: Weak<Registry>,
}

impl Tools {
    /// Describes a tool with the runs of an organisation, or of all for `None`.
    fn describe(entry: &RegisteredTool, whole: bool, organisation: Option<&str>) -> Value {
        let spec = &entry.spec;
        let figures = entry.figures(organisation);
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
                "lastInvokedUnix": figures.last.map(|at| date::to_ms(at) / 1000),
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
        .input(json!({
            "category?": {
                "type": "string", "maxLength": 64, "description": "Such as `file` or `system`",
            },
            "name?": {
                "type": "string", "maxLength": 200,
                "description": "`category/name` of one tool, or `category__name`",
            },
        }))
        .output(json!({
            "count": "integer",
            "categories": {"type": "object", "additionalProperties": {"type": "integer"}},
            "tools": {"type": "array", "items": {"type": "object"}},
        }))
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
            Some(view.identity().organisation.unwrap_or(DEFAULT_ORGANISATION))
        };
        let tools: Vec<_> =
            shown.iter().map(|entry| Self::describe(entry, name.is_some(), organisation)).collect();
        Ok(json!({"count": tools.len(), "categories": categories, "tools": tools}).into())
    }
}

/// Returns the registered tools in the caller's list.
fn visible(registry: &Registry, caller_view: &dyn CallerView) -> Vec<Arc<RegisteredTool>> {
    let mut servers = caller_view.servers();
    servers.retain(|server| {
        server.status().peer.as_ref().is_some_and(|peer| peer.transport == "builtin")
    });
    let mut names = BTreeSet::new();
    for seen in caller_view.items(ListKind::Tools) {
        if !servers.iter().any(|server| *server.slug() == *seen.slug) {
            continue;
        }
        let Ok(item) = json::from_slice::<Value>(&seen.text) else { continue };
        if let Some(Value::String(own)) = item.get("name") {
            names.insert(format!("{}/{own}", seen.slug));
        }
    }
    let mut entries = registry.all();
    entries.retain(|entry| names.contains(&*entry.name));
    entries
}
