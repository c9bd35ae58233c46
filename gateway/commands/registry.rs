//! `lockgate integrations`, `agents`, `organisations`, `connect`, `servers add` and `approvals`:
//! the API from a terminal. The gateway makes all decisions.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use http::Method;
use lockgate_text::json;
use serde_json::{Value, json};

use crate::commands::Printed;
use crate::commands::remote::{GatewayClient, INTEGRATIONS, Question};
use crate::commands::show::list;

/// Commands for integrations.
#[derive(Subcommand)]
pub(crate) enum Integrations {
    /// List the integrations of your organisation
    List,
    /// Add an integration by its address, or from the operator's catalogue
    Add(NewIntegration),
    /// List the operator's catalogue of servers that can be added by name
    Predefined,
    /// Show an integration
    Show(Named),
    /// Test an integration: connect, initialize, read its lists
    Validate(Named),
    /// Close the connection to an integration and reconnect
    Reconnect(Named),
    /// Enable an integration
    Enable(Named),
    /// Disable an integration: the gateway does not connect to it
    Disable(Named),
    /// Delete an integration, also from all agents
    Delete(Named),
}

/// The item of a command.
#[derive(Args)]
pub(crate) struct Named {
    /// The id or the name, as `list` shows it
    id: String,
}

/// The caller's accounts at servers.
#[derive(Args)]
pub(crate) struct OwnAccounts {
    /// Show the state of this server's account and the link to connect it [default: all servers]
    server: Option<String>,
    /// List your accounts at all servers
    #[arg(long, conflicts_with = "server")]
    list: bool,
    /// Disconnect the account and revoke its tokens
    #[arg(long, requires = "server")]
    revoke: bool,
}

/// An integration by its address, or from the operator's catalogue.
#[derive(Args)]
pub(crate) struct NewIntegration {
    /// Its display name
    #[arg(required_unless_present = "predefined")]
    name: Option<String>,
    /// The address of an MCP server
    #[arg(value_name = "URL", required_unless_present = "predefined")]
    server_url: Option<String>,
    /// Use this entry of the operator's catalogue instead of an address
    #[arg(long, value_name = "SLUG", conflicts_with_all = ["server_url", "auth", "header"])]
    predefined: Option<String>,
    /// How the gateway authenticates to the server
    #[arg(long, value_parser = AUTH_METHODS, default_value = "none")]
    auth: String,
    /// The header of the key, with `--auth api-key`
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// The file that holds the key or the token; `-` reads it from stdin
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Test the server first, and add it only if the test succeeds
    #[arg(long)]
    validate: bool,
}

const AUTH_METHODS: [&str; 5] = ["none", "api-key", "bearer-token", "user", "user-headers"];

/// Commands for agents.
#[derive(Subcommand)]
pub(crate) enum Agents {
    /// List your agents
    List,
    /// Create an agent
    Create {
        /// Its display name
        name: String,
    },
    /// Rename an agent
    Rename {
        /// The id or the name, as `list` shows it
        id: String,
        name: String,
    },
    /// Show, or set from a file, the items of an agent: chosen, renamed and described
    Items {
        /// The id or the name, as `list` shows it
        id: String,
        /// A JSON file with `tools`, `prompts`, `resources`, `rename` and `describe`; `-` reads it
        /// from stdin
        file: Option<PathBuf>,
        /// Give the agent all items of its servers again
        #[arg(long, conflicts_with = "file")]
        all: bool,
    },
    /// Delete an agent and its endpoint
    Delete(Named),
    /// List the integrations of an agent
    Integrations(Named),
    /// List the integrations that could be assigned to an agent
    Available(Named),
    /// List the servers that an agent has or could have
    Servers(Named),
    /// Switch a server, or one of its tools, on or off for an agent
    Switch {
        /// The id or the name of the agent
        id: String,
        /// The slug of the server, as `servers` shows it
        server: String,
        #[arg(value_parser = ["on", "off"])]
        state: String,
        /// The server's own name of a tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
    },
    /// Assign an integration to an agent
    Assign {
        /// The id or the name of the agent
        id: String,
        /// The id, name or slug of the integration
        integration: String,
    },
    /// Unassign an integration from an agent
    Unassign {
        /// The id or the name of the agent
        id: String,
        /// The id, name or slug of the integration
        integration: String,
    },
}

/// Commands for organisations.
#[derive(Subcommand)]
pub(crate) enum Organisations {
    /// List the organisations that were created, or have integrations or agents
    List,
    /// Create an organisation
    Create {
        /// Its name, as in keys and tokens
        id: String,
    },
    /// Delete an empty organisation
    Delete {
        /// Its name
        id: String,
    },
}

/// Above the gateway's own limits.
const MAX_FILE: u64 = 1024 * 1024;
const INTEGRATION: &[&str] = &["id", "state", "name", "slug", "reason"];
const PREDEFINED: &[&str] = &["slug", "name", "authMethod", "description"];
const AGENT: &[&str] = &["id", "name", "endpoint", "owner"];
const AGENT_ITEMS: &[&str] = &["id", "name", "items"];
const AGENT_SERVER: &[&str] = &["server", "assigned", "state", "name", "hiddenTools"];
const ORGANISATION: &[&str] = &["id", "integrations", "agents"];

const CONNECTION: &[&str] = &["server", "state", "connectUrl", "scopes", "failure"];

impl Integrations {
    pub(crate) fn question(&self) -> anyhow::Result<Question<'_>> {
        Ok(match self {
            Self::List => Question::get(&[INTEGRATIONS], INTEGRATION),
            Self::Add(new) => new.question()?,
            Self::Predefined => {
                Question::get(&[INTEGRATIONS, "predefined", "available"], PREDEFINED).plain()
            }
            Self::Show(Named { id }) => Question::get(&[INTEGRATIONS, id], INTEGRATION),
            Self::Delete(Named { id }) => Question::delete(&[INTEGRATIONS, id], INTEGRATION),
            Self::Validate(Named { id }) => act(id, "validate"),
            Self::Reconnect(Named { id }) => act(id, "reconnect"),
            Self::Enable(Named { id }) => act(id, "enable"),
            Self::Disable(Named { id }) => act(id, "disable"),
        })
    }
}

fn act<'a>(id: &'a str, action: &'static str) -> Question<'a> {
    Question::post(&[INTEGRATIONS, id, action], INTEGRATION)
}

impl NewIntegration {
    pub(crate) fn question(&self) -> anyhow::Result<Question<'static>> {
        let mut body = json!({});
        let kind = match &self.predefined {
            Some(slug) => {
                body["slug"] = slug.as_str().into();
                "predefined"
            }
            None => {
                self.describe_place(&mut body);
                "custom"
            }
        };
        if let Some(name) = &self.name {
            body["name"] = name.as_str().into();
        }
        if let Some(file) = &self.credentials {
            body["credentials"] = read_file(file)?.into();
        }
        if self.validate {
            body["validate"] = true.into();
        }
        let question = Question::post(&[INTEGRATIONS, kind], INTEGRATION);
        Ok(question.plain().with(body))
    }

    fn describe_place(&self, body: &mut Value) {
        body["serverUrl"] = self.server_url.as_deref().into();
        body["authMethod"] = self.auth.replace('-', "_").into();
        if let Some(header) = &self.header {
            body["headerName"] = header.as_str().into();
        }
    }
}

impl Agents {
    pub(crate) fn question(&self) -> anyhow::Result<Question<'_>> {
        Ok(match self {
            Self::List => Question::get(&["agents"], AGENT),
            Self::Create { name } => Question::post(&["agents"], AGENT).with(json!({"name": name})),
            Self::Rename { id, name } => {
                Question::new(Method::PATCH, &["agents", id], AGENT).with(json!({"name": name}))
            }
            Self::Items { id, file: None, all: false } => {
                Question::get(&["agents", id], AGENT_ITEMS)
            }
            Self::Items { id, file, .. } => {
                let items = match file {
                    Some(file) => json::from_str(&read_file(file)?)
                        .with_context(|| format!("{} is not JSON", file.display()))?,
                    None => Value::Null,
                };
                let body = json!({"items": items});
                Question::new(Method::PATCH, &["agents", id], AGENT_ITEMS).with(body)
            }
            Self::Delete(Named { id }) => Question::delete(&["agents", id], AGENT),
            Self::Integrations(Named { id }) => {
                Question::get(&["agents", id, INTEGRATIONS], INTEGRATION)
            }
            Self::Available(Named { id }) => {
                Question::get(&["agents", id, INTEGRATIONS, "available"], INTEGRATION)
            }
            Self::Servers(Named { id }) => Question::get(&["agents", id, "servers"], AGENT_SERVER),
            Self::Switch { id, server, state, tool } => {
                let is_on = state == "on";
                let body = match tool {
                    Some(tool) => json!({"tools": {tool: is_on}}),
                    None => json!({"assigned": is_on}),
                };
                let path = ["agents", id, "servers", server];
                Question::new(Method::PATCH, &path, AGENT_SERVER).with(body)
            }
            Self::Assign { id, integration } => {
                Question::post(&["agents", id, INTEGRATIONS, integration], INTEGRATION)
            }
            Self::Unassign { id, integration } => {
                Question::delete(&["agents", id, INTEGRATIONS, integration], INTEGRATION)
            }
        })
    }
}

impl Organisations {
    pub(crate) fn question(&self) -> Question<'_> {
        match self {
            Self::List => Question::get(&["organisations"], ORGANISATION),
            Self::Create { id } => {
                Question::post(&["organisations"], ORGANISATION).with(json!({"id": id}))
            }
            Self::Delete { id } => Question::delete(&["organisations", id], ORGANISATION),
        }
    }
}

impl OwnAccounts {
    pub(crate) fn question(&self) -> Question<'_> {
        let method = if self.revoke { Method::DELETE } else { Method::GET };
        let mut path = vec!["connections"];
        path.extend(self.server.as_deref());
        Question::new(method, &path, CONNECTION).plain()
    }
}

/// Reads a file, such as a key, without trailing line breaks.
#[allow(clippy::disallowed_methods, reason = "a file that its user names on the command line")]
fn read_file(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().take(MAX_FILE).read_to_string(&mut text).context("stdin")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
        let read = opened.take(MAX_FILE).read_to_string(&mut text);
        read.with_context(|| file.display().to_string())?;
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[derive(Subcommand)]
pub(crate) enum Approvals {
    /// List the calls that wait for your approval
    List,
    /// Approve a call: it is sent once, exactly as shown
    Approve {
        /// The id, as `list` shows it
        id: String,
    },
    /// Deny a call
    Deny {
        /// The id, as `list` shows it
        id: String,
    },
}

impl Approvals {
    pub(crate) fn run(&self, gateway: &GatewayClient, json: bool) -> Printed {
        let (method, path) = match self {
            Self::List => (Method::GET, vec!["approvals"]),
            Self::Approve { id } => (Method::POST, vec!["approvals", checked(id)?, "approve"]),
            Self::Deny { id } => (Method::POST, vec!["approvals", checked(id)?, "deny"]),
        };
        let answer = gateway.send(method, &path, None)?;
        let text = match self {
            _ if json => serde_json::to_string_pretty(&answer)?,
            Self::List => show_list(&answer),
            Self::Approve { .. } | Self::Deny { .. } => show_state(&answer),
        };
        Ok((text, ExitCode::SUCCESS))
    }
}

/// Checks that an id is hexadecimal, as the gateway's are, so that it cannot change the path.
fn checked(id: &str) -> anyhow::Result<&str> {
    if id.is_empty() || id.contains(|c: char| !c.is_ascii_hexdigit()) {
        bail!("`{id}` is not a call id; `lockgate approvals list` shows the ids");
    }
    Ok(id)
}

fn show_list(answer: &Value) -> String {
    let mut text = String::new();
    for call in list(answer, "approvals") {
        let _ = writeln!(
            text,
            "{}  {} calls {} (server {}), {} s left\n  arguments {}\n  {}",
            text_of(call, "id"),
            text_of(call, "caller"),
            text_of(call, "tool"),
            text_of(call, "server"),
            number_of(call, "expires_in"),
            text_of(call, "arguments"),
            show_policies(call),
        );
    }
    if text.is_empty() {
        return "no calls are waiting for your approval".into();
    }
    text.trim_end().to_owned()
}

fn show_policies(call: &Value) -> String {
    let parts = list(call, "policies").iter().map(|policy| {
        let name = text_of(policy, "policy");
        let given = number_of(policy, "approvals");
        format!("policy {name}: {given} of {}", number_of(policy, "needed"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn show_state(answer: &Value) -> String {
    let id = text_of(answer, "id");
    match text_of(answer, "state") {
        "waiting" => {
            format!("{id} approved by you, waiting for other approvers: {}", show_policies(answer))
        }
        state => format!("{id} {state}"),
    }
}

fn text_of<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or("")
}

fn number_of(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}
