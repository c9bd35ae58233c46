//! The `system` server: the gateway, the state of its servers, the built-in tools, and resources
//! for clients that only support tools. Shows only items that the caller may see anyway; never
//! secrets, command lines, addresses or the output of a failing server.

mod about;
mod resources;
mod tools;

use std::sync::Arc;

use crate::About;
use crate::registry::Registry;
use crate::server::ServerDefinition;
use crate::stats::Stats;
use crate::tool::{Client, ToolError};

pub(crate) fn build(
    about: &About,
    registry: &Arc<Registry>,
    stats: &Arc<Stats>,
) -> ServerDefinition {
    ServerDefinition {
        instructions:
            "Use these tools to identify this gateway and to find the reason for a missing server."
                .into(),
        tools: vec![
            Box::new(about::Info(about.clone())),
            Box::new(about::Health(about.clone())),
            Box::new(about::Servers),
            Box::new(tools::Tools::new(registry, stats)),
            Box::new(resources::List),
            Box::new(resources::Read),
        ],
        provider: None,
        backing: None,
    }
}

fn caller_view<'a>(
    client: &Client<'a>,
) -> Result<&'a dyn lockgate_upstream::CallerView, ToolError> {
    client
        .caller_view()
        .ok_or_else(|| ToolError::new("the call has no caller, so there is nothing to show"))
}
