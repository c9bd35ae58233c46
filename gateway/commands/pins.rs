//! `lockgate pins`: shows how tools differ from their approved definitions, and approves them.
//! Reads the servers as the gateway does, and writes the lock file completely or not at all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use lockgate_policy::pin::{self, Lock, Pin, Standing};
use lockgate_proxy::Gateway;
use lockgate_text::count::count;
use lockgate_upstream::UpstreamState;
use serde_json::json;

use crate::commands::Printed;
use crate::commands::show::pretty;
use crate::pins_file::write;

/// Digits of a fingerprint shown to tell definitions apart.
const SHORT_FINGERPRINT: usize = 12;

#[derive(clap::Subcommand, Clone)]
pub(crate) enum Command {
    /// Show how the tools of all servers differ from the lock file; exit code 1 if one needs review
    Diff,
    /// Write the current definitions of tools into the lock file
    Approve {
        /// `server/tool`, `server/tool@FINGERPRINT` as `diff` shows it, or `server` for all of its
        /// tools
        names: Vec<String>,
        /// All tools of all servers; tools that no longer exist are removed
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Keep the current definitions of tools hidden, without a further review until they change
    Reject {
        /// As for `approve`
        names: Vec<String>,
    },
}

/// A tool as its server currently offers it.
struct Offered {
    slug: String,
    tool: String,
    pin: Pin,
}

pub(crate) fn run(
    command: &Command,
    gateway: &Arc<Gateway>,
    lock: &Lock,
    file: &Path,
    json: bool,
) -> Printed {
    let offered = offered(gateway)?;
    let gone = gone(gateway, lock, &offered);
    let (verb, chosen) = match command {
        Command::Diff => return Ok(diff(lock, &offered, &gone, json)),
        Command::Approve { all: true, .. } => ("approved", offered.values().collect()),
        Command::Approve { names, .. } => ("approved", choose(names, &offered)?),
        Command::Reject { names } => ("rejected", choose(names, &offered)?),
    };
    let mut new = lock.clone();
    let mut lines = Vec::new();
    for one in chosen {
        if lock.standing(&one.slug, &one.tool, &one.pin.fingerprint) == Standing::Approved {
            continue;
        }
        lines.push(format!("{verb} {}", pin::name(&one.slug, &one.tool)));
        match command {
            Command::Reject { .. } => new.reject(&one.slug, &one.tool, &one.pin.fingerprint),
            _ => new.approve(&one.slug, &one.tool, one.pin.clone()),
        }
    }
    if matches!(command, Command::Approve { all: true, .. }) {
        for name in &gone {
            new.forget(name);
            lines.push(format!("removed {name}"));
        }
    }
    let is_approval = matches!(command, Command::Approve { .. });
    if !is_approval || new != *lock || !file.is_file() {
        write(file, &new.write())?;
    }
    if is_approval {
        lines.push(format!("{}: {}", file.display(), count(new.names().count(), "tool")));
    }
    Ok((lines.join("\n"), ExitCode::SUCCESS))
}

/// Returns every tool of every server except the built-in ones, by its name in lock files.
fn offered(gateway: &Arc<Gateway>) -> anyhow::Result<BTreeMap<String, Offered>> {
    let mut all = BTreeMap::new();
    for server in gateway.servers() {
        if let Some(peer) = &server.status().peer
            && peer.transport == "builtin"
        {
            continue;
        }
        let catalog = server.catalog();
        for item in catalog.pinned_items() {
            let slug = server.slug().to_owned();
            let tool = item.key.to_string();
            let pin = Pin::of(&item.text);
            let pin = pin.map_err(|error| anyhow!("{slug}/{tool}: {error}"))?;
            all.insert(pin::name(&slug, &tool), Offered { slug, tool, pin });
        }
    }
    Ok(all)
}

/// Returns the approved tools that their connected server no longer offers, and those of servers
/// that are not configured.
fn gone(gateway: &Arc<Gateway>, lock: &Lock, offered: &BTreeMap<String, Offered>) -> Vec<String> {
    let servers = gateway.servers();
    // Servers of organisations begin with `@` and are not connected here.
    let missing =
        lock.names().filter(|name| !offered.contains_key(*name) && !name.starts_with('@'));
    let gone = missing.filter(|name| {
        let slug = name.split('/').next().unwrap_or(name);
        let server = servers.iter().find(|server| server.slug() == slug);
        server.is_none_or(|server| server.status().state == UpstreamState::Connected)
    });
    gone.map(str::to_owned).collect()
}

fn choose<'a>(
    names: &[String],
    offered: &'a BTreeMap<String, Offered>,
) -> anyhow::Result<Vec<&'a Offered>> {
    if names.is_empty() {
        bail!("specify tools (`server/tool`), a server, or --all");
    }
    let mut chosen = Vec::new();
    for wanted in names {
        let (name, fingerprint) = match wanted.rsplit_once('@') {
            Some((name, print)) if offered.contains_key(name) => (name, Some(print)),
            _ => (wanted.as_str(), None),
        };
        match offered.get(name) {
            Some(one) => {
                if let Some(print) = fingerprint
                    && (print.is_empty() || !plain(&one.pin).starts_with(print))
                {
                    bail!(
                        "the definition of {name} has changed ({}): review it again",
                        short(&one.pin)
                    );
                }
                chosen.push(one);
            }
            None => {
                let before = chosen.len();
                chosen.extend(offered.values().filter(|one| one.slug == name));
                if chosen.len() == before {
                    bail!(
                        "there is no tool and no server {name}; `lockgate pins diff` lists tools"
                    );
                }
            }
        }
    }
    Ok(chosen)
}

fn diff(
    lock: &Lock,
    offered: &BTreeMap<String, Offered>,
    gone: &[String],
    json: bool,
) -> (String, ExitCode) {
    let mut entries = Vec::new();
    for (name, one) in offered {
        let standing = lock.standing(&one.slug, &one.tool, &one.pin.fingerprint);
        if standing == Standing::Approved {
            continue;
        }
        let before = lock.pin(&one.slug, &one.tool).map(|pin| pin.definition.clone());
        let changes = pin::changes(&before.unwrap_or(json!({})), &one.pin.definition);
        let findings = pin::inspect(&one.pin.definition);
        entries.push((name.as_str(), standing.as_str(), short(&one.pin), changes, findings));
    }
    for name in gone {
        entries.push((name.as_str(), "gone", String::new(), Vec::new(), Vec::new()));
    }
    let rejected = Standing::Rejected.as_str();
    let is_decided = entries.iter().all(|(_, standing, ..)| *standing == rejected);
    let code = if is_decided { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        let all = entries.into_iter().map(|(name, standing, fingerprint, changes, findings)| {
            let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
            json!({
                "tool": name,
                "standing": standing,
                "fingerprint": fingerprint,
                "changes": changes,
                "findings": findings,
            })
        });
        return (pretty(&all.collect()), code);
    }
    if entries.is_empty() {
        let tools = count(offered.len(), "tool");
        return (format!("{tools} checked: all match their approved definitions"), code);
    }
    let mut out = String::new();
    for (name, standing, fingerprint, changes, findings) in entries {
        let at = if fingerprint.is_empty() { String::new() } else { format!("@{fingerprint}") };
        let _ = writeln!(out, "{standing:8} {name}{at}");
        for line in changes {
            let _ = writeln!(out, "    {line}");
        }
        for line in findings {
            let _ = writeln!(out, "    REVIEW: {line}");
        }
    }
    (out.trim_end().to_owned(), code)
}

fn plain(pin: &Pin) -> &str {
    pin.fingerprint.rsplit(':').next().unwrap_or("")
}

fn short(pin: &Pin) -> String {
    plain(pin).chars().take(SHORT_FINGERPRINT).collect()
}
