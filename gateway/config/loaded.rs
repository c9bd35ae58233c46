//! What is loaded, and from where: the settings of each layer, the sources that they come from,
//! and what the root has to know beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::problem::Problem;

/// Where configuration comes from.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`. Without it `LOCKGATE_CONFIG`, then `lockgate.yaml`, `.yml`, `.toml` or `.json`
    /// in `cwd`, then defaults.
    pub config: Option<PathBuf>,
    /// No configuration file is looked for.
    pub without_file: bool,
    /// `--mcp-servers`: files of clients whose servers are added.
    pub mcp_servers: Vec<PathBuf>,
    pub flags: Flags,
    /// The whole environment; it is never read from elsewhere.
    pub env: BTreeMap<String, String>,
    /// The folder that relative paths of flags and variables start from; absolute.
    pub cwd: PathBuf,
}

/// Settings given on the command line; they win over everything.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--listen`; here alone port 0 (any free port) is accepted.
    pub listen: Option<String>,
    pub log_level: Option<String>,
    pub profile: Option<String>,
}

/// A valid configuration and what belongs to it.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// The configuration file itself, if there is one; absolute.
    pub file: Option<PathBuf>,
    /// Every file that was read, absolute: when one changes, load again.
    pub files: Vec<PathBuf>,
    pub warnings: Vec<Problem>,
    /// What `MCP_TRANSPORT` asks of the program when no command is given.
    pub transport: Option<Transport>,
}

/// How the program serves when no command says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
}

/// What each layer is configured with. No Debug of any part shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Stricter defaults were asked for.
    pub production: bool,
    pub listener: lockgate_listener::Config,
    pub proxy: lockgate_proxy::Config,
    pub authn: lockgate_authn::Config,
    pub policy: lockgate_policy::Config,
    pub egress: lockgate_egress::Config,
    pub telemetry: lockgate_telemetry::Config,
    pub store: lockgate_store::Config,
    /// Where rates are shared with other gateways, if they are.
    pub limits: Option<lockgate_limits::Config>,
    pub tools: lockgate_tools::Config,
    pub admin: lockgate_admin::Config,
    /// The lock file of tools: when it changes, load again.
    pub pins_file: Option<PathBuf>,
    /// By slug, in alphabetical order; disabled ones too.
    pub servers: Vec<lockgate_upstream::Config>,
    /// What organisations may add.
    pub catalogue: lockgate_registry::Catalogue,
}
