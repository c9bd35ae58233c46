//! Definitions of the built-in tools of a configuration, for commands that start no gateway. Only
//! the requested server is built; no tool is called and no other host is contacted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use lockgate_config::Config;
use lockgate_egress::Connector;
use lockgate_tools::{About, Builtin};
use lockgate_upstream::{Events, ListKind};

/// The definitions of a server's tools, by their unprefixed names.
pub(crate) type Tools = BTreeMap<String, Vec<u8>>;

/// Builds the description of the gateway for built-in servers, and their dependencies.
pub(crate) fn about(config: &Config, events: Events, connector: &Arc<Connector>) -> About {
    About {
        name: config.proxy.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started: Instant::now(),
        events,
        connector: Arc::clone(connector),
    }
}

/// Returns the tools of a built-in server, or `None` if the server is disabled.
pub(crate) fn tools(config: &Config, server: &str) -> anyhow::Result<Option<Tools>> {
    if !config.tools.runs(server) {
        return Ok(None);
    }
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _within = runtime.enter();
    let (events, _) = tokio::sync::broadcast::channel(1);
    let connector = Arc::new(Connector::new(&config.egress).context("egress")?);
    let builtin = Builtin::new(about(config, events, &connector));
    match builtin.prepare(&alone(&config.tools, server)) {
        Ok(prepared) => builtin.adopt(prepared),
        Err(words) => anyhow::bail!(words),
    }
    let mut tools = Tools::new();
    for one in builtin.servers() {
        if one.slug() == server {
            for item in one.catalog().items(ListKind::Tools) {
                tools.insert(item.key.to_string(), item.text.to_vec());
            }
        }
    }
    Ok(Some(tools))
}

/// Returns the part of the configuration for a single server.
fn alone(config: &lockgate_tools::Config, server: &str) -> lockgate_tools::Config {
    let mut alone = lockgate_tools::Config::none();
    match server {
        "system" => alone.system = config.system,
        "example" => alone.example = config.example,
        "file" => alone.file = config.file.clone(),
        "database" => alone.database = config.database.clone(),
        "shell" => alone.shell = config.shell.clone(),
        "content" => alone.content = config.content.clone(),
        "web" => alone.web = config.web.clone(),
        _ => {}
    }
    alone
}
