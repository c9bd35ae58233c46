//! The arguments and flags of the command line.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};
use lockgate_config::{RunningAddresses, Sources};

use crate::commands::remote::GatewayClient;
use crate::commands::{config, init, keys, pins, policies, registry, remote, store, verify};

/// Seconds for which `--wait` may wait for servers.
const WAIT_SECONDS: RangeInclusive<u64> = 1..=300;

/// One gateway in front of many MCP servers, across both protocol eras.
///
/// Without a command it serves HTTP on 127.0.0.1:3001, with the servers of lockgate.yaml in the
/// current folder, or with a small example server when there is no such file.
#[derive(Parser)]
#[command(name = "lockgate", version, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  lockgate                                   serve on http://127.0.0.1:3001/mcp
  lockgate serve --config team.yaml          use a configuration file
  lockgate serve --mcp-servers claude.json   use the servers of a desktop client's file
  lockgate init --from claude                write lockgate.yaml with the servers of Claude Desktop
  lockgate check                             find every mistake in the configuration
  lockgate config show                       show the effective settings and their sources
  lockgate tools                             list the tools that clients see
  lockgate call example__echo '{\"text\":\"hi\"}'
  lockgate tools --url http://127.0.0.1:3001 list the tools of a running gateway

A minimal configuration file:
  servers:
    time: { command: uvx, args: [mcp-server-time] }
    docs: { url: https://example.com/mcp }";

#[derive(Args, Clone)]
pub(super) struct Common {
    /// Configuration file (YAML, TOML or JSON) [default: lockgate.yaml, .yml, .toml or .json here]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A client's own file with `mcpServers` (Claude Desktop, Cursor, VS Code); may be repeated
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) mcp_servers: Vec<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:3001]
    #[arg(long, global = true, value_name = "ADDR")]
    pub(super) listen: Option<String>,
    /// `development` (default) or `production`
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Log filter, such as `debug` or `lockgate=debug,warn`
    #[arg(long, global = true, value_name = "FILTER")]
    pub(super) log_level: Option<String>,
    /// Data as JSON instead of tables and text
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Serve clients over HTTP (the default)
    Serve,
    /// Serve one client over stdin and stdout, for desktop clients
    Stdio {
        /// Serve only the assignments of this agent of the organisation `default`
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
    },
    /// Check the configuration and report every mistake; exit code 1 if there is one
    Check,
    /// Write a first configuration file, on request with the servers of a client
    Init(init::Init),
    /// Show the effective settings and the source of each value
    #[command(subcommand)]
    Config(config::Command),
    /// Connect to every server and show its state, or add one to a running gateway
    #[command(args_conflicts_with_subcommands = true)]
    Servers {
        #[command(flatten)]
        at: At,
        #[command(subcommand)]
        command: Option<ServersAt>,
    },
    /// Manage the servers of your organisation on a running gateway
    Integrations {
        #[command(flatten)]
        at: Running,
        #[command(subcommand)]
        command: registry::Integrations,
    },
    /// Manage your agents on a running gateway
    Agents {
        #[command(flatten)]
        at: Running,
        #[command(subcommand)]
        command: registry::Agents,
    },
    /// Show links to connect your accounts at servers of a running gateway, or disconnect them
    Connect {
        #[command(flatten)]
        at: Running,
        #[command(flatten)]
        command: registry::OwnAccounts,
    },
    /// Manage the organisations of a running gateway, for operators
    Organisations {
        #[command(flatten)]
        at: Running,
        #[command(subcommand)]
        command: registry::Organisations,
    },
    /// Connect to every server and list the tools as clients see them
    Tools {
        #[command(flatten)]
        at: At,
    },
    /// Call one tool
    Call {
        #[command(flatten)]
        at: At,
        /// Exposed name, such as `time__get_current_time` or `time/get_current_time`
        name: String,
        /// Arguments as a JSON object; `-` reads them from stdin
        #[arg(default_value = "{}")]
        arguments: String,
    },
    /// List and answer the calls that wait for your approval on a running gateway
    Approvals {
        #[command(flatten)]
        at: Running,
        #[command(subcommand)]
        command: registry::Approvals,
    },
    /// Compare tools with the lock file, and approve them
    #[command(subcommand)]
    Pins(pins::Command),
    /// Verify the audit trail
    #[command(subcommand)]
    Audit(verify::Command),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Check, back up and restore the database of run-time changes
    #[command(subcommand)]
    Store(store::Command),
    /// Manage the keys that encrypt credentials
    #[command(subcommand)]
    Vault(store::VaultCommand),
    /// Check, test and explain policies
    #[command(subcommand)]
    Policy(policies::Command),
    /// Print the JSON Schema of the configuration, for editors
    Schema {
        /// Print the schema of policy files instead
        #[arg(long)]
        policy: bool,
        /// Print the schema of files of cases instead
        #[arg(long, conflicts_with = "policy")]
        cases: bool,
    },
    /// Print the completion script of a shell
    Completions {
        /// `bash`, `elvish`, `fish`, `powershell` or `zsh`
        shell: clap_complete::Shell,
    },
    /// Print the manual page of a command, for packagers
    #[command(hide = true)]
    Man {
        /// The command, such as `keys create`; without it, the page of the program
        words: Vec<String>,
        /// List the commands that have a page, one per line
        #[arg(long, conflicts_with = "words")]
        list: bool,
    },
}

/// Changes to the servers of a running gateway.
#[derive(Subcommand)]
pub(super) enum ServersAt {
    /// Add a server to your organisation on a running gateway
    Add {
        #[command(flatten)]
        at: Running,
        #[command(flatten)]
        new: registry::NewIntegration,
    },
}

/// A running gateway, or one that is started for the command.
#[derive(Args, Clone)]
pub(super) struct At {
    /// Use the gateway running at this address, instead of starting one with the local
    /// configuration [default: the variable LOCKGATE_URL]
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Its bearer key [default: the variable LOCKGATE_CLIENT_KEY]
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// How long to wait for servers that are slow to start
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u64).range(WAIT_SECONDS))]
    pub(super) wait: u64,
}

/// A running gateway.
#[derive(Args, Clone)]
pub(super) struct Running {
    /// Address of the gateway [default: the variable LOCKGATE_URL, else the address in the
    /// configuration that is specified or found here]
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Your bearer key [default: the variable LOCKGATE_CLIENT_KEY]
    #[arg(long, global = true, value_name = "KEY")]
    pub(super) key: Option<String>,
}

impl Running {
    /// Returns a client for the gateway; `choose` selects its address in the configuration.
    pub(super) fn connect(
        &self,
        sources: Sources,
        choose: impl FnOnce(RunningAddresses) -> String,
    ) -> anyhow::Result<GatewayClient> {
        let key = remote::find_key(self.key.as_deref(), &sources);
        let url = remote::find_running(self.url.as_deref(), &sources, choose)?;
        GatewayClient::new(&url, key.as_deref(), sources)
    }
}
