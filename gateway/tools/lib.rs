//! Built-in servers. The rest of the gateway treats them like any other server, but they run in
//! this process.
//!
//! To add a tool, write one file with a [`tool::Tool`] and name it in its category's list
//! (`file.rs`, `system.rs` …). To add a category, add its settings to [`Config`] and one line to
//! [`Builtin::prepare`].

mod blocking;
pub mod content;
mod database;
mod example;
mod file;
mod provider;
mod registry;
mod schema;
mod server;
mod shell;
mod system;
mod tool;
mod web;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

pub use database::{
    Connection as DatabaseConnection, DatabasePlace, EMBEDDED, Network as DatabaseNetwork,
    Settings as Database,
};
pub use file::config::{Config as File, Root as FileRoot};
use lockgate_egress::Connector;
use lockgate_text::setting::Toggle;
use lockgate_text::settings;
use lockgate_upstream::{Events, Upstream};
use parking_lot::Mutex;
use registry::Registry;
use server::{Server, ServerDefinition};
pub use shell::{Config as Shell, Landlock, Root as ShellRoot, confined};
pub use web::Config as Web;

/// The parts of the gateway that built-in servers may use.
#[derive(Clone)]
pub struct About {
    pub name: String,
    pub version: String,
    pub started: Instant,
    /// Receives the servers' change events.
    pub events: Events,
    /// The only way to other hosts.
    pub connector: Arc<Connector>,
}

/// The enabled built-in servers, by category.
pub struct Builtin {
    about: About,
    registry: Arc<Registry>,
    running: Mutex<Running>,
}

struct Running {
    config: Config,
    servers: BTreeMap<&'static str, Arc<Server>>,
}

impl Builtin {
    /// Creates the set of servers, with none enabled.
    pub fn new(about: About) -> Self {
        let running = Mutex::new(Running { config: Config::none(), servers: BTreeMap::new() });
        Self { about, registry: Arc::default(), running }
    }

    /// Builds the servers with changed configuration. Nothing changes until [`Self::adopt`].
    /// Requires a Tokio runtime.
    ///
    /// # Errors
    /// A sentence about the server that cannot be built.
    pub fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let old = &self.running.lock().config;
        let mut changes = Changes::new();
        let example = [&switch(old.runs("example")), &switch(config.runs("example"))];
        self.part(&mut changes, "example", example, |()| Ok(example::build()))?;
        let system = [&switch(old.system), &switch(config.system)];
        self.part(&mut changes, "system", system, |()| {
            Ok(system::build(&self.about, &self.registry))
        })?;
        self.part(&mut changes, "content", [&old.content, &config.content], content::build)?;
        self.part(&mut changes, "database", [&old.database, &config.database], |database| {
            database::build(database, &self.about)
        })?;
        self.part(&mut changes, "web", [&old.web, &config.web], |web| {
            web::build(web, &self.about)
        })?;
        // These depend on the machine. If one cannot be built, it is listed as failed and the
        // configuration is still accepted.
        self.part(&mut changes, "file", [&old.file, &config.file], |file| {
            Ok(ServerDefinition::or_trouble("file", file::build(file)))
        })?;
        self.part(&mut changes, "shell", [&old.shell, &config.shell], |shell| {
            Ok(ServerDefinition::or_trouble("shell", shell::build(shell)))
        })?;
        Ok(Prepared { config: config.clone(), changes })
    }

    /// Builds a category's server if its configuration has changed. The server is not visible until
    /// all are built.
    fn part<C: PartialEq>(
        &self,
        changes: &mut Changes,
        category: &'static str,
        [old, new]: [&Option<C>; 2],
        make: impl FnOnce(&C) -> Result<ServerDefinition, String>,
    ) -> Result<(), String> {
        if old == new {
            return Ok(());
        }
        let Some(config) = new else {
            changes.push((category, None));
            return Ok(());
        };
        let mut definition =
            make(config).map_err(|words| format!("builtin.{category}: {words}"))?;
        let tools = self.registry.prepare(category, std::mem::take(&mut definition.tools))?;
        changes.push((category, Some(PreparedServer { tools, definition })));
        Ok(())
    }

    /// Starts new servers and stops removed servers.
    pub fn adopt(&self, Prepared { config, changes }: Prepared) {
        let mut running = self.running.lock();
        for (category, made) in changes {
            let Some(made) = made else {
                self.registry.install(category, &[]);
                running.servers.remove(category);
                continue;
            };
            self.registry.install(category, &made.tools);
            let events = self.about.events.clone();
            let server = Server::start(category, &self.about.version, made, events);
            running.servers.insert(category, server);
        }
        running.config = config;
    }

    /// Returns the running servers.
    pub fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        let running = self.running.lock();
        running.servers.values().map(|server| Arc::clone(server) as Arc<dyn Upstream>).collect()
    }
}

/// Returns the settings of a category without settings other than being enabled.
fn switch(on: bool) -> Option<()> {
    on.then_some(())
}

/// Servers that are built and can be adopted.
pub struct Prepared {
    config: Config,
    changes: Changes,
}

/// Servers to start (`Some`) and to stop (`None`).
type Changes = Vec<(&'static str, Option<PreparedServer>)>;

struct PreparedServer {
    tools: Vec<Arc<registry::RegisteredTool>>,
    /// The rest of its definition.
    definition: ServerDefinition,
}

settings! {
    // The list of built-in servers.

    #[derive(Debug)]
    pub struct Config as "Builtin" {
        /// Reports the state of the gateway and its servers.
        pub system: bool = Toggle<true>,
        /// A few harmless tools to try a client with. By default on in development when neither a
        /// server nor another category is configured.
        pub example: Option<bool> = Option<Toggle<false>>,
        /// Reads and changes files in folders; off until it is configured.
        pub file: Option<File>,
        /// Resources and prompts that the gateway itself offers; off until it is configured.
        pub content: Option<content::Config>,
        /// Reads databases; off until it is configured.
        pub database: Option<Database>,
        /// Runs allowed programs, confined; off until it is configured.
        pub shell: Option<Shell>,
        /// Requests to web servers and pages as text; off until it is configured.
        pub web: Option<Web>,
    }
}

impl Config {
    /// Returns the settings without any server.
    pub fn none() -> Self {
        Self { system: false, ..Self::default() }
    }

    /// Returns the names of the enabled built-in servers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("content", self.content.is_some()),
            ("database", self.database.is_some()),
            ("example", self.example == Some(true)),
            ("file", self.file.is_some()),
            ("shell", self.shell.is_some()),
            ("system", self.system),
            ("web", self.web.is_some()),
        ];
        all.into_iter().filter_map(|(name, is_enabled)| is_enabled.then_some(name))
    }

    /// Returns whether a built-in server of this name is enabled, which reserves the name.
    pub fn runs(&self, category: &str) -> bool {
        self.names().any(|name| name == category)
    }
}

#[cfg(test)]
mod tests;
