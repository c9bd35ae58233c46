//! The `system` server: what the gateway is and how its servers are. It shows names, states and counts; never secrets,
//! command lines, addresses or what a failing server wrote.

use std::sync::Arc;

use lockgate_protocol::revision::Revision;
use lockgate_upstream::{BoxFuture, ListKind};
use serde_json::{Map, Value, json};

use crate::About;
use crate::server::Server;
use crate::tool::{Card, Client, Mistake, Tool};

pub(crate) fn server(about: About) -> Server {
    let version = about.version.clone();
    let about = Arc::new(about);
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(Info(Arc::clone(&about))), Box::new(Servers(about))];
    let instructions = "Use these tools to find out what this gateway is and why a server may be missing.";
    Server::new("system", &version, instructions, tools, None)
}

struct Info(Arc<About>);

impl Tool for Info {
    fn card(&self) -> Card {
        Card {
            name: "info",
            title: "Gateway information",
            description: "Tells this gateway's name, version, uptime in seconds, protocol revisions and platform.",
            input: json!({}),
            required: &[],
            output: json!({
                "name": {"type": "string"}, "version": {"type": "string"}, "uptimeSeconds": {"type": "integer"},
                "revisions": {"type": "array", "items": {"type": "string"}}, "platform": {"type": "string"}
            }),
        }
    }

    fn run<'a>(&'a self, _: Map<String, Value>, _: Client) -> BoxFuture<'a, Result<Value, Mistake>> {
        Box::pin(async move {
            let revisions: Vec<_> = Revision::ALL.iter().map(|r| r.as_str()).collect();
            Ok(json!({
                "name": self.0.name, "version": self.0.version, "uptimeSeconds": self.0.started.elapsed().as_secs(),
                "revisions": revisions, "platform": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
            }))
        })
    }
}

struct Servers(Arc<About>);

impl Tool for Servers {
    fn card(&self) -> Card {
        Card {
            name: "servers",
            title: "Servers behind the gateway",
            description: "Tells of each server behind this gateway whether it is connected, which protocol era it speaks, \
                          how much it offers, and which stage failed if it is not there.",
            input: json!({}),
            required: &[],
            output: json!({"servers": {"type": "array", "items": {"type": "object"}}}),
        }
    }

    fn run<'a>(&'a self, _: Map<String, Value>, _: Client) -> BoxFuture<'a, Result<Value, Mistake>> {
        Box::pin(async move {
            let all = (self.0.servers)().into_iter().map(|server| {
                let (status, catalog) = (server.status(), server.catalog());
                json!({
                    "name": server.slug(),
                    "state": status.state.as_str(),
                    "era": status.peer.as_ref().map(|p| p.era.as_str()),
                    "revision": status.peer.as_ref().map(|p| p.revision.as_str()),
                    "transport": status.peer.as_ref().map(|p| p.transport),
                    "tools": catalog.items(ListKind::Tools).len(),
                    "prompts": catalog.items(ListKind::Prompts).len(),
                    "resources": catalog.items(ListKind::Resources).len(),
                    "failedStage": status.trouble.as_ref().map(|t| t.stage.as_str()),
                })
            });
            Ok(json!({"servers": all.collect::<Vec<_>>()}))
        })
    }
}
