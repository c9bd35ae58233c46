//! The loaded configuration: the settings of each layer, their sources, and further values for the
//! root package.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::problem::Problem;

/// The sources of a configuration.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`. Without it `LOCKGATE_CONFIG`, then `lockgate.yaml`, `.yml`, `.toml` or `.json`
    /// in `cwd`, then defaults.
    pub config: Option<PathBuf>,
    /// Whether to ignore configuration files.
    pub without_file: bool,
    /// `--mcp-servers`: client files with servers to add.
    pub mcp_servers: Vec<PathBuf>,
    pub flags: Flags,
    /// The whole environment; the process's environment is never read.
    pub env: BTreeMap<String, String>,
    /// The base folder of relative paths in flags and variables; absolute.
    pub cwd: PathBuf,
}

/// Settings from the command line, which override all others.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--listen`; the only source in which port 0 (any free port) is accepted.
    pub listen: Option<String>,
    pub log_level: Option<String>,
    pub profile: Option<String>,
}

/// A valid configuration with its files and warnings.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// The configuration file, if any; absolute.
    pub file: Option<PathBuf>,
    /// Every file that was read, absolute; a change requires a reload.
    pub files: Vec<PathBuf>,
    /// When reading began.
    pub begun: SystemTime,
    pub warnings: Vec<Problem>,
    /// The transport requested by `MCP_TRANSPORT`, for runs without a command.
    pub transport: Option<Transport>,
}

/// The default transport of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
}

/// The configuration of each layer. No `Debug` of any part shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether stricter defaults apply.
    pub production: bool,
    pub listener: lockgate_listener::Config,
    pub proxy: lockgate_proxy::Config,
    pub authn: lockgate_authn::Config,
    pub policy: lockgate_policy::Config,
    pub egress: lockgate_egress::Config,
    pub telemetry: lockgate_telemetry::Config,
    pub store: lockgate_store::Config,
    /// The store of rates shared with other gateways, if configured.
    pub limits: Option<lockgate_limits::Config>,
    pub tools: lockgate_tools::Config,
    pub admin: lockgate_admin::Config,
    /// By slug, in alphabetical order, including disabled servers.
    pub servers: Vec<lockgate_upstream::Config>,
    /// Accounts at those servers.
    pub accounts: lockgate_accounts::Config,
    /// Servers that organisations may add.
    pub catalogue: lockgate_registry::Catalogue,
}
