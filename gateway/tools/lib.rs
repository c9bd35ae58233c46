//! Built-in servers: the same to the rest of the gateway as any other, only that they answer in this process.
//!
//! To add a tool, write one file with a [`tool::Tool`] and name it in its server's list (`system.rs`, `example.rs`).
//! Nothing here opens a file, a connection or a process.

mod config;
mod example;
mod server;
mod system;
mod tool;

pub use config::Config;

use std::sync::Arc;
use std::time::Instant;

use lockgate_upstream::Upstream;

/// What the built-in servers may know of the gateway that they are part of.
#[derive(Clone)]
pub struct About {
    /// The gateway's own name.
    pub name: String,
    pub version: String,
    pub started: Instant,
    /// The servers of now, built-in ones included.
    pub servers: Arc<dyn Fn() -> Vec<Arc<dyn Upstream>> + Send + Sync>,
}

/// The built-in servers that are switched on.
#[must_use]
pub fn servers(config: &Config, about: About) -> Vec<Arc<dyn Upstream>> {
    let mut servers: Vec<Arc<dyn Upstream>> = Vec::new();
    if config.example {
        servers.push(Arc::new(example::server(&about.version)));
    }
    if config.system {
        servers.push(Arc::new(system::server(about)));
    }
    servers
}

#[cfg(test)]
mod tests;
