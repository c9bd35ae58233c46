//! Output for people: tables and text, or the same as JSON.

use std::io::IsTerminal;
use std::sync::Arc;

use lockgate_policy::pin::Standing;
use lockgate_proxy::{Gateway, Suspect};
use lockgate_text::unseen::is_unseen;
use lockgate_upstream::{ListKind, State, Upstream};
use serde_json::{Value, json};

use crate::commands::ask::Answer;

/// What states are coloured with.
const COLOURS: [&str; 4] = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];
/// Widest description in a table that is not shown on a terminal, and the least anywhere.
const WIDTH: usize = 72;
const LEAST_WIDTH: usize = 16;

/// States of servers about which there is nothing to do.
const UP: [State; 3] = [State::Connected, State::Resting, State::Disabled];

/// How every server is.
pub(crate) struct Servers(Vec<Value>);

impl Servers {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Self {
        let suspects = gateway.suspects();
        let servers = gateway.servers();
        Self(servers.iter().map(|server| describe_server(&**server, &suspects)).collect())
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

    /// Whether every server is there, or is not meant to be.
    pub(crate) fn are_up(&self) -> bool {
        let mut states = self.0.iter().map(|server| cell(server, "state"));
        states.all(|state| UP.iter().any(|up| up.as_str() == state))
    }

    pub(crate) fn render(&self, json: bool) -> String {
        if json {
            return pretty(&Value::Array(self.0.clone()));
        }
        let keys =
            ["name", "state", "era", "revision", "transport", "tools", "prompts", "resources"];
        let mut rows = Vec::new();
        for server in &self.0 {
            let mut row = keys.map(|key| cell(server, key)).to_vec();
            row.extend(bounds(server));
            rows.push(row);
        }
        let mut out = table(&[keys.as_slice(), &["calls", "timeout"]].concat(), &rows);
        for server in &self.0 {
            out.push_str(&remarks(server));
        }
        out
    }
}

/// The servers that are not there, and why, a line each; nothing when all are.
pub(crate) fn missing(gateway: &Arc<Gateway>) -> Vec<String> {
    let mut lines = Vec::new();
    for server in gateway.servers() {
        let status = server.status();
        if UP.contains(&status.state) {
            continue;
        }
        let why = match &status.trouble {
            Some(trouble) => plain(&trouble.to_string()),
            None => "it is still starting; --wait SECONDS waits longer".to_owned(),
        };
        lines.push(format!(
            "server {} is missing ({}): {why}",
            server.slug(),
            status.state.as_str()
        ));
    }
    lines
}

fn describe_server(server: &dyn Upstream, suspects: &[Suspect]) -> Value {
    let status = server.status();
    let catalog = server.catalog();
    let peer = status.peer.as_ref();
    let trouble = status.trouble.as_ref();
    let suspects = suspects.iter().filter(|suspect| suspect.server == server.slug());
    json!({
        "name": server.slug(),
        "state": status.state.as_str(),
        "era": peer.map(|peer| peer.era.as_str()),
        "revision": peer.map(|peer| peer.revision.as_str()),
        "transport": peer.map(|peer| peer.transport),
        "tools": catalog.items(ListKind::Tools).len(),
        "prompts": catalog.items(ListKind::Prompts).len(),
        "resources": catalog.items(ListKind::Resources).len(),
        "trouble": trouble.map(ToString::to_string),
        "stderr": trouble.map(|trouble| trouble.stderr.clone()).unwrap_or_default(),
        "omitted": catalog.omitted,
        "load": server.load().map(|load| load.json()),
        "suspects": suspects.map(describe_suspect).collect::<Value>(),
    })
}

/// What operators should know of a server, below the table.
fn remarks(server: &Value) -> String {
    let name = cell(server, "name");
    let mut out = String::new();
    if let Some(breaker) = server.pointer("/load/breaker")
        && let Some(state) = breaker.get("state").and_then(Value::as_str)
        && state != "closed"
    {
        let why = breaker.get("why").and_then(Value::as_str).unwrap_or("it kept failing");
        out.push_str(&format!("\n\n{name}: breaker {}: {}", plain(state), plain(why)));
    }
    if cell(server, "state") == State::Pending.as_str() {
        out.push_str(&format!("\n\n{name}: it is still starting; --wait SECONDS waits longer"));
    }
    if let Some(trouble) = server.get("trouble").and_then(Value::as_str) {
        out.push_str(&format!("\n\n{name}: {}", plain(trouble)));
        for line in list(server, "stderr") {
            out.push_str(&format!("\n  | {}", plain(line.as_str().unwrap_or_default())));
        }
    }
    for suspect in list(server, "suspects") {
        if suspect.get("quarantined") == Some(&Value::Bool(true)) {
            out.push_str(&format!("\n{name}: quarantined: {}", cell(suspect, "tool")));
        }
    }
    for line in list(server, "omitted") {
        let line = plain(line.as_str().unwrap_or_default());
        out.push_str(&format!("\n{name}: left out: {line}"));
    }
    out
}

pub(crate) fn cell(server: &Value, key: &str) -> String {
    match server.get(key) {
        Some(Value::String(text)) => plain(text),
        Some(Value::Number(n)) => n.to_string(),
        _ => "-".into(),
    }
}

fn list<'a>(server: &'a Value, key: &str) -> &'a [Value] {
    match server.get(key) {
        Some(Value::Array(list)) => list,
        _ => &[],
    }
}

/// Calls that run of those that may, and the time that each has.
fn bounds(server: &Value) -> [String; 2] {
    let running = server.pointer("/load/running").and_then(Value::as_u64);
    let concurrency = server.pointer("/load/concurrency").and_then(Value::as_u64);
    let calls = match (running, concurrency) {
        (Some(running), Some(all)) => format!("{running}/{all}"),
        _ => "-".into(),
    };
    let timeout = match server.pointer("/load/timeoutMs").and_then(Value::as_u64) {
        Some(ms) => format!("{} s", ms / 1000),
        None => "-".into(),
    };
    [calls, timeout]
}

/// What operators should know of a tool, as JSON.
fn describe_suspect(suspect: &Suspect) -> Value {
    json!({
        "tool": suspect.tool,
        "standing": suspect.standing.map(Standing::as_str),
        "quarantined": suspect.quarantined,
        "findings": suspect.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Tools that are quarantined, or that somebody should look at.
pub(crate) fn suspects(all: &[Suspect]) -> String {
    let mut text = String::new();
    for suspect in all {
        let state = if suspect.quarantined { "quarantined" } else { "look at this" };
        text.push_str(&format!("\n{state}: {}/{}", suspect.server, plain(&suspect.tool)));
        match suspect.standing {
            None | Some(Standing::Approved) => {}
            Some(standing) => text.push_str(&format!(" ({})", standing.as_str())),
        }
        for finding in &suspect.findings {
            text.push_str(&format!("\n    {}", plain(&finding.to_string())));
        }
    }
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
    let mut longest = 0;
    for tool in tools {
        longest = longest.max(cell(tool, "name").chars().count());
    }
    let width = match terminal_width() {
        Some(columns) => columns.saturating_sub(longest + 3).max(LEAST_WIDTH),
        None => WIDTH,
    };
    let mut rows = Vec::new();
    for tool in tools {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
        let first = description.lines().next().unwrap_or_default();
        let cut: String = first.chars().take(width).collect();
        let more = if cut.len() < first.len() { "…" } else { "" };
        rows.push(vec![name.to_owned(), format!("{cut}{more}")]);
    }
    table(&["tool", "description"], &rows)
}

/// Columns of the terminal that is written to, if it is one that says so.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// What a tool answered: its text, or all of it as JSON.
pub(crate) fn answer(answer: &Answer, json: bool) -> String {
    if json {
        return pretty(&answer.result);
    }
    let mut texts = Vec::new();
    for block in list(&answer.result, "content") {
        texts.push(match block.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => pretty(block),
        });
    }
    if texts.is_empty() { pretty(&answer.result) } else { texts.join("\n") }
}

pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Foreign text on one line: what nobody sees, and what a terminal takes for a command, is written
/// as an escape.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_plain(&mut out, c);
    }
    out
}

fn push_plain(out: &mut String, c: char) {
    if !is_unseen(c) {
        return out.push(c);
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

/// What is about to be written to a terminal, whoever wrote it: lines and our own colours stay.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(colour) = COLOURS.iter().find(|colour| rest.starts_with(**colour)) {
            out.push_str(colour);
            rest = rest.get(colour.len()..).unwrap_or_default();
            continue;
        }
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.starts_with("\r\n") => {}
            c => push_plain(&mut out, c),
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Columns as wide as their longest cell; states in colour on a terminal.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let colour = std::io::stdout().is_terminal();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.len()).collect();
    let mut shown = Vec::new();
    for row in rows {
        let row: Vec<String> = row.iter().map(|cell| plain(cell)).collect();
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.chars().count());
        }
        shown.push(row);
    }
    let mut lines = vec![table_line(head, &widths).to_uppercase()];
    for row in &shown {
        let text = table_line(row, &widths);
        lines.push(if colour { coloured(&text, row) } else { text });
    }
    lines.join("\n")
}

fn table_line(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!("{:<width$}  ", cell.as_ref()));
    }
    line.truncate(line.trim_end().len());
    line
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

#[cfg(test)]
mod tests;
