//! `system/info`, `system/health` and `system/servers`: the gateway and the servers visible to the
//! caller.

use std::collections::BTreeMap;

use lockgate_protocol::revision::Revision;
use lockgate_upstream::{ListKind, UNREADABLE_LISTS, Upstream, UpstreamState};
use serde_json::{Value, json};

use super::caller_view;
use crate::About;
use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

pub(super) struct Info(pub(super) About);

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

pub(super) struct Health(pub(super) About);

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

pub(super) struct Servers;

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
        let mut counts: BTreeMap<std::sync::Arc<str>, [usize; ListKind::COUNT]> = BTreeMap::new();
        for (at, kind) in ListKind::ALL.into_iter().enumerate() {
            for seen in caller_view.items(kind) {
                counts.entry(seen.slug).or_default()[at] += 1;
            }
        }
        let mut all = Vec::new();
        for server in caller_view.servers() {
            let counts = counts.get(server.slug()).unwrap_or(&[0; ListKind::COUNT]);
            let mut described = describe(&*server, *counts);
            if described["failedStage"].is_null() && caller_view.calls_fail(&*server) {
                described["failedStage"] = "call".into();
                described["failedReason"] = "most recent calls failed".into();
            }
            all.push(described);
        }
        Ok(json!({"servers": all}).into())
    }
}

fn describe(
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
