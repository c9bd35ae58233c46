//! What the built-in tools of a configuration say of themselves, for commands that start no
//! gateway. It makes the one server that is asked about, calls nothing and reaches no other host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use lockgate_config::Config;
use lockgate_egress::Connector;
use lockgate_tools::{About, Builtin};
use lockgate_upstream::ListKind;

/// Every built-in server there may be; the category of its tools has its name.
pub(crate) const CATEGORIES: [&str; 7] =
    ["content", "database", "example", "file", "shell", "system", "web"];

/// The definitions of a server's tools, by their own names.
pub(crate) type Tools = BTreeMap<String, Vec<u8>>;

/// The tools of a built-in server, if it runs.
pub(crate) fn tools(config: &Config, server: &str) -> anyhow::Result<Option<Tools>> {
    if !config.tools.runs(server) {
        return Ok(None);
    }
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _within = runtime.enter();
    let (events, _) = tokio::sync::broadcast::channel(1);
    let builtin = Builtin::new(About {
        name: config.proxy.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started: Instant::now(),
        events,
        connector: Arc::new(Connector::new(&config.egress).context("egress")?),
    });
    builtin.adopt(builtin.prepare(&alone(&config.tools, server)).map_err(anyhow::Error::msg)?);
    let catalogs =
        builtin.servers().into_iter().filter(|one| one.slug() == server).map(|one| one.catalog());
    let tools = catalogs.flat_map(|catalog| {
        let tools = catalog
            .items(ListKind::Tools)
            .iter()
            .map(|item| (item.key.to_string(), item.text.to_vec()));
        tools.collect::<Vec<_>>()
    });
    Ok(Some(tools.collect()))
}

/// The part of the configuration that one server is made of.
fn alone(config: &lockgate_tools::Config, server: &str) -> lockgate_tools::Config {
    let of = |category: &str| server == category;
    lockgate_tools::Config {
        system: config.system && of("system"),
        example: config.example && of("example"),
        file: config.file.clone().filter(|_| of("file")),
        database: config.database.clone().filter(|_| of("database")),
        shell: config.shell.clone().filter(|_| of("shell")),
        content: config.content.clone().filter(|_| of("content")),
        web: config.web.clone().filter(|_| of("web")),
    }
}
