//! Output for people: tables and text, or the same as JSON.

use std::io::IsTerminal;
use std::sync::Arc;

use lockgate_policy::pin::Standing;
use lockgate_proxy::{Gateway, Suspect};
use lockgate_upstream::{ListKind, State};
use serde_json::{Value, json};

use crate::commands::ask::Answer;

/// Widest description in a table.
const WIDTH: usize = 72;

/// How every server is.
pub(crate) struct Servers(Vec<Value>);

impl Servers {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Self {
        let suspects = gateway.suspects();
        let all = gateway.servers().into_iter().map(|server| {
            let status = server.status();
            let catalog = server.catalog();
            json!({
                "name": server.slug(),
                "state": status.state.as_str(),
                "era": status.peer.as_ref().map(|p| p.era.as_str()),
                "revision": status.peer.as_ref().map(|p| p.revision.as_str()),
                "transport": status.peer.as_ref().map(|p| p.transport),
                "tools": catalog.items(ListKind::Tools).len(),
                "prompts": catalog.items(ListKind::Prompts).len(),
                "resources": catalog.items(ListKind::Resources).len(),
                "trouble": status.trouble.as_ref().map(ToString::to_string),
                "stderr": status.trouble.as_ref().map(|t| t.stderr.clone()).unwrap_or_default(),
                "omitted": catalog.omitted,
                "load": server.load().map(|load| load.json()),
                "suspects": suspects.iter().filter(|s| s.server == server.slug()).map(suspect).collect::<Value>(),
            })
        });
        Self(all.collect())
    }

    /// What another gateway tells of its servers.
    pub(crate) fn told(mut servers: Vec<Value>) -> Self {
        for server in &mut servers {
            let reason = server
                .get("failedReason")
                .and_then(Value::as_str)
                .map(|reason| format!(": {reason}"));
            let stage = server.get("failedStage").and_then(Value::as_str);
            let stage = stage.map(|stage| format!("{stage} failed{}", reason.unwrap_or_default()));
            if let (Value::Object(server), Some(stage)) = (server, stage) {
                server.insert("trouble".into(), stage.into());
            }
        }
        Self(servers)
    }

    pub(crate) fn render(&self, json: bool) -> String {
        if json {
            return pretty(&Value::Array(self.0.clone()));
        }
        let text = |server: &Value, key: &str| match server.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(n)) => n.to_string(),
            _ => "-".into(),
        };
        let keys =
            ["name", "state", "era", "revision", "transport", "tools", "prompts", "resources"];
        let row = |server: &Value| {
            keys.map(|key| text(server, key)).into_iter().chain(bounds(server)).collect()
        };
        let rows: Vec<Vec<String>> = self.0.iter().map(row).collect();
        let mut out = table(&[keys.as_slice(), &["calls", "timeout"]].concat(), &rows);
        for server in &self.0 {
            let breaker = server.pointer("/load/breaker");
            let part = |key: &str| breaker.and_then(|b| b.get(key)).and_then(Value::as_str);
            if let Some(state) = part("state").filter(|state| *state != "closed") {
                let why = part("why").unwrap_or("it kept failing");
                out.push_str(&format!("\n\n{}: breaker {state}: {why}", text(server, "name")));
            }
            if let Some(trouble) = server.get("trouble").and_then(Value::as_str) {
                out.push_str(&format!("\n\n{}: {trouble}", text(server, "name")));
                for line in server.get("stderr").and_then(Value::as_array).into_iter().flatten() {
                    out.push_str(&format!("\n  | {}", line.as_str().unwrap_or_default()));
                }
            }
            let quarantined =
                server.get("suspects").and_then(Value::as_array).into_iter().flatten();
            for one in quarantined.filter(|one| one.get("quarantined") == Some(&Value::Bool(true)))
            {
                out.push_str(&format!(
                    "\n{}: quarantined: {}",
                    text(server, "name"),
                    text(one, "tool")
                ));
            }
            for line in server.get("omitted").and_then(Value::as_array).into_iter().flatten() {
                out.push_str(&format!(
                    "\n{}: left out: {}",
                    text(server, "name"),
                    line.as_str().unwrap_or_default()
                ));
            }
        }
        out
    }
}

/// Calls that run of those that may, and the time that each has.
fn bounds(server: &Value) -> [String; 2] {
    let number =
        |key: &str| server.get("load").and_then(|load| load.get(key)).and_then(Value::as_u64);
    let calls = number("running")
        .zip(number("concurrency"))
        .map(|(running, all)| format!("{running}/{all}"));
    let timeout = number("timeoutMs").map(|ms| format!("{} s", ms / 1000));
    [calls, timeout].map(|cell| cell.unwrap_or_else(|| "-".into()))
}

/// What operators should know of a tool, as JSON.
fn suspect(suspect: &Suspect) -> Value {
    json!({
        "tool": suspect.tool,
        "standing": suspect.standing.map(Standing::as_str),
        "quarantined": suspect.quarantined,
        "findings": suspect.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Tools that are quarantined, or that somebody should look at.
pub(crate) fn suspects(all: &[Suspect]) -> String {
    let line = |suspect: &Suspect| {
        let state = if suspect.quarantined { "quarantined" } else { "look at this" };
        let standing = suspect.standing.filter(|s| *s != Standing::Approved);
        let standing = standing.map(|s| format!(" ({})", s.as_str())).unwrap_or_default();
        let findings: String =
            suspect.findings.iter().map(|finding| format!("\n    {finding}")).collect();
        format!("\n{state}: {}/{}{standing}{findings}", suspect.server, suspect.tool)
    };
    let text: String = all.iter().map(line).collect();
    if text.is_empty() {
        text
    } else {
        format!("\n{text}\n\n`lockgate pins diff` says more; `lockgate pins approve` approves.")
    }
}

/// The tools as clients see them.
pub(crate) fn tools(tools: &[Value], json: bool) -> String {
    if json {
        return pretty(&Value::Array(tools.to_vec()));
    }
    let rows = tools.iter().map(|tool| {
        let part = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        let first = part("description").lines().next().unwrap_or_default();
        let cut: String = first.chars().take(WIDTH).collect();
        let more = if cut.len() < first.len() { "…" } else { "" };
        vec![part("name").to_owned(), format!("{cut}{more}")]
    });
    table(&["tool", "description"], &rows.collect::<Vec<_>>())
}

/// What a tool answered: its text, or all of it as JSON.
pub(crate) fn answer(answer: &Answer, json: bool) -> String {
    if json {
        return pretty(&answer.result);
    }
    let blocks = answer.result.get("content").and_then(Value::as_array);
    let texts: Vec<String> = blocks
        .into_iter()
        .flatten()
        .map(|block| match block.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => pretty(block),
        })
        .collect();
    if texts.is_empty() { pretty(&answer.result) } else { texts.join("\n") }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Columns as wide as their longest cell; states in colour on a terminal.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let colour = std::io::stdout().is_terminal();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|h| h.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied()).to_uppercase()];
    for row in rows {
        let text = line(&mut row.iter().map(String::as_str));
        lines.push(if colour { coloured(&text, row) } else { text });
    }
    lines.join("\n")
}

fn coloured(line: &str, row: &[String]) -> String {
    let states = [
        (State::Connected, 32),
        (State::Failed, 31),
        (State::Unresponsive, 31),
        (State::NeedsAuth, 33),
        (State::Pending, 33),
    ];
    let found =
        states.iter().find(|(state, _)| row.get(1).is_some_and(|cell| cell == state.as_str()));
    found.map_or_else(
        || line.to_owned(),
        |(state, code)| {
            line.replacen(state.as_str(), &format!("\x1b[{code}m{}\x1b[0m", state.as_str()), 1)
        },
    )
}
