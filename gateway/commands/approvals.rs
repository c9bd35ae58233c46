//! `lockgate approvals`: lists the calls that wait for approval at a running gateway, and approves
//! or denies them. The gateway decides which approvals the caller may give.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use http::Method;
use serde_json::Value;

use crate::commands::Printed;
use crate::commands::remote::GatewayClient;
use crate::commands::show::list;

#[derive(Subcommand)]
pub(crate) enum Command {
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

impl Command {
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
