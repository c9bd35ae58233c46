//! The loaded configuration: the settings of each layer, their sources, and further values for the
//! root package.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::problem::{Problem, Report};
use crate::raw::{ApiPlace, Profile};
use crate::{load, validate};

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

// The local addresses of a configuration's gateway, for commands that contact a running gateway.
// Mistakes elsewhere in the configuration, such as a variable that is only set for the gateway,
// are ignored.

const NEEDED: &[&[&str]] = &[&["listen"], &["admin", "listen"], &["admin", "api"], &["profile"]];

/// The URLs of a gateway, without a path.
#[derive(Debug, PartialEq, Eq)]
pub struct RunningAddresses {
    pub clients: String,
    /// The API's URL: on `admin.listen`, unless the clients' address serves the API.
    pub api: String,
}

/// Reads the addresses from the sources. The default address is used without any configuration.
///
/// # Errors
/// A file cannot be read, or contains no valid address.
pub fn find_addresses(sources: &Sources) -> Result<RunningAddresses, Report> {
    let root = load::read_root(sources, NEEDED)?;
    let scheme = if root.http.tls.is_some() { "https" } else { "http" };
    let listen = root.listen.as_ref().map_or(validate::LISTEN, |text| text.0.as_str());
    let clients = url_of(scheme, listen);
    let beside_clients = match root.admin.api {
        ApiPlace::Auto => root.profile == Profile::Development,
        ApiPlace::Everywhere => true,
        ApiPlace::Off => false,
    };
    let api = match &root.admin.listen {
        Some(listen) if !beside_clients => url_of(scheme, &listen.0),
        _ => clients.clone(),
    };
    Ok(RunningAddresses { clients, api })
}

fn url_of(scheme: &str, listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            format!("{scheme}://{}:{}", Ipv4Addr::LOCALHOST, address.port())
        }
        _ => format!("{scheme}://{listen}"),
    }
}
