//! Output for people (tables and text), or the same as JSON.

use std::io::IsTerminal;
use std::sync::Arc;

use lockgate_admin::Fault;
use lockgate_policy::pin::Standing;
use lockgate_proxy::{FlaggedTool, Gateway};
use lockgate_text::unseen::is_unseen;
use lockgate_upstream::{ListKind, Upstream, UpstreamState};
use serde_json::{Value, json};
use url::Url;

/// The colours of states, and the reset sequence.
const COLOURS: [&str; 4] = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];
/// Maximum width of a description outside a terminal, and the minimum anywhere.
const DEFAULT_WIDTH: usize = 72;
const MIN_WIDTH: usize = 16;

/// States of servers that need no attention.
const UP: [UpstreamState; 3] =
    [UpstreamState::Connected, UpstreamState::Resting, UpstreamState::Disabled];

/// The state of a connected server that fails to list or to answer calls.
const FAILING: &str = "failing";

pub(crate) struct Servers(Vec<Value>);

impl Servers {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Self {
        let flagged_tools = gateway.flagged_tools(None);
        let servers = gateway.servers();
        let described = servers.iter().map(|one| describe_server(gateway, &**one, &flagged_tools));
        Self(described.collect())
    }

    /// Takes over the descriptions sent by another gateway.
    pub(crate) fn told(mut servers: Vec<Value>) -> Self {
        for server in &mut servers {
            let trouble = match (server["failedStage"].as_str(), server["failedReason"].as_str()) {
                (Some(stage), Some(reason)) => format!("{stage} failed: {reason}"),
                (Some(stage), None) => format!("{stage} failed"),
                (None, _) => continue,
            };
            server["trouble"] = trouble.into();
        }
        Self(servers)
    }

    /// Reports whether every server is connected, or intentionally is not.
    pub(crate) fn are_up(&self) -> bool {
        self.0.iter().all(is_up)
    }

    pub(crate) fn render(&self, json: bool) -> String {
        if json {
            return pretty(&Value::Array(self.0.clone()));
        }
        let keys =
            ["name", "state", "era", "revision", "transport", "tools", "prompts", "resources"];
        let rows = self.0.iter().map(|server| {
            let mut row = keys.map(|key| cell(server, key)).to_vec();
            if is_failing(server) {
                row[1] = FAILING.to_owned();
            }
            row.extend(bounds(server));
            row
        });
        let rows: Vec<_> = rows.collect();
        let out = table(&[keys.as_slice(), &["calls", "timeout"]].concat(), &rows);
        let remarks = self.0.iter().map(remarks);
        out + &remarks.collect::<String>()
    }
}

fn is_up(server: &Value) -> bool {
    let state = cell(server, "state");
    UP.iter().any(|up| up.as_str() == state) && !is_failing(server)
}

/// Reports whether a server has a fault although it is connected.
fn is_failing(server: &Value) -> bool {
    let state = cell(server, "state");
    let has_fault = server["fault"].is_object() || server["trouble"].is_string();
    has_fault && UP.iter().any(|up| up.as_str() == state)
}

/// Returns a line for each unavailable server, with the reason.
pub(crate) fn missing(gateway: &Arc<Gateway>) -> Vec<String> {
    let servers =
        gateway.servers().into_iter().map(|server| (server.slug().to_owned(), server.status()));
    let missing = servers.filter(|(_, status)| !UP.contains(&status.state));
    let lines = missing.map(|(slug, status)| {
        let why = match &status.trouble {
            Some(trouble) => plain(&trouble.to_string()),
            None => "it is still starting; --wait SECONDS waits longer".to_owned(),
        };
        format!("server {slug} is missing ({}): {why}", status.state.as_str())
    });
    lines.collect()
}

fn describe_server(
    gateway: &Gateway,
    server: &dyn Upstream,
    flagged_tools: &[FlaggedTool],
) -> Value {
    let status = server.status();
    let catalog = server.catalog();
    let own = flagged_tools.iter().filter(|flagged_tool| flagged_tool.server == server.slug());
    let flagged: Vec<_> = own.map(describe_flagged_tool).collect();
    let mut described = json!({
        "name": server.slug(),
        "state": status.state.as_str(),
        "era": null,
        "revision": null,
        "transport": null,
        "tools": catalog.items(ListKind::Tools).len(),
        "prompts": catalog.items(ListKind::Prompts).len(),
        "resources": catalog.items(ListKind::Resources).len(),
        "trouble": null,
        "stderr": [],
        "omitted": catalog.omitted,
        "load": server.stats().map(|stats| stats.json()),
        "suspects": flagged,
    });
    if let Some(peer) = &status.peer {
        described["era"] = peer.era.as_str().into();
        described["revision"] = peer.revision.as_str().into();
        described["transport"] = peer.transport.into();
    }
    if let Some(fault) = Fault::find(gateway, server, true, true) {
        described["fault"] = serde_json::to_value(fault).unwrap_or_default();
    }
    if let Some(trouble) = &status.trouble {
        described["trouble"] = trouble.to_string().into();
        described["stderr"] = trouble.stderr.clone().into();
    }
    described
}

/// Describes a server's problems, for display below the table.
fn remarks(server: &Value) -> String {
    let name = cell(server, "name");
    let mut out = String::new();
    let breaker = &server["load"]["breaker"];
    if let Some(state) = breaker["state"].as_str()
        && state != "closed"
    {
        let why = breaker["why"].as_str().unwrap_or("it kept failing");
        out.push_str(&format!("\n\n{name}: breaker {}: {}", plain(state), plain(why)));
    }
    if cell(server, "state") == UpstreamState::Pending.as_str() {
        out.push_str(&format!("\n\n{name}: it is still starting; --wait SECONDS waits longer"));
    }
    if let Some(trouble) = server["trouble"].as_str() {
        out.push_str(&format!("\n\n{name}: {}", plain(trouble)));
        for line in list(server, "stderr") {
            out.push_str(&format!("\n  | {}", plain(line.as_str().unwrap_or(""))));
        }
    }
    let fault = &server["fault"];
    if let (true, Some(cause)) = (is_failing(server), fault["cause"].as_str()) {
        out.push_str(&format!("\n\n{} {}", cell(fault, "summary"), plain(cause)));
    }
    if let Some(fix) = fault["fix"].as_str() {
        out.push_str(&format!("\n{name}: {fix}"));
    }
    for flagged_tool in list(server, "suspects") {
        if flagged_tool.get("quarantined") == Some(&Value::Bool(true)) {
            out.push_str(&format!("\n{name}: quarantined: {}", cell(flagged_tool, "tool")));
        }
    }
    for line in list(server, "omitted") {
        let line = plain(line.as_str().unwrap_or(""));
        out.push_str(&format!("\n{name}: omitted: {line}"));
    }
    out
}

pub(crate) fn cell(server: &Value, key: &str) -> String {
    match server.get(key) {
        Some(Value::String(text)) => plain(text),
        Some(Value::Number(n)) => n.to_string(),
        Some(Value::Bool(is_so)) => if *is_so { "yes" } else { "no" }.to_owned(),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) && !items.is_empty() => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            plain(&items.join(", "))
        }
        _ => "-".into(),
    }
}

/// Returns the member `key` if it is a list, and an empty list otherwise.
pub(crate) fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the number of running calls with its limit, and the timeout.
fn bounds(server: &Value) -> [String; 2] {
    let load = &server["load"];
    let calls = match (load["running"].as_u64(), load["concurrency"].as_u64()) {
        (Some(running), Some(all)) => format!("{running}/{all}"),
        _ => "-".into(),
    };
    let timeout = load["timeoutMs"].as_u64();
    let timeout = timeout.map_or_else(|| "-".into(), |ms| format!("{} s", ms / 1000));
    [calls, timeout]
}

fn describe_flagged_tool(flagged_tool: &FlaggedTool) -> Value {
    let findings: Vec<_> =
        flagged_tool.findings.iter().map(|finding| finding.to_string()).collect();
    json!({
        "tool": flagged_tool.tool,
        "standing": flagged_tool.standing.map(Standing::as_str),
        "quarantined": flagged_tool.quarantined,
        "findings": findings,
    })
}

/// Lists tools that are quarantined or need a review.
pub(crate) fn flagged_tools(all: &[FlaggedTool]) -> String {
    let mut text = String::new();
    for flagged_tool in all {
        let state = if flagged_tool.quarantined { "quarantined" } else { "review" };
        text.push_str(&format!("\n{state}: {}/{}", flagged_tool.server, plain(&flagged_tool.tool)));
        if let Some(standing) = flagged_tool.standing.filter(|one| *one != Standing::Approved) {
            text.push_str(&format!(" ({})", standing.as_str()));
        }
        for finding in &flagged_tool.findings {
            text.push_str(&format!("\n    {}", plain(&finding.to_string())));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n{text}\n\n`lockgate pins diff` shows details; `lockgate pins approve` approves.")
}

pub(crate) fn tools(tools: &[Value], json: bool) -> String {
    if json {
        return pretty(&Value::Array(tools.to_vec()));
    }
    let longest = tools.iter().map(|tool| cell(tool, "name").chars().count()).max().unwrap_or(0);
    let width = terminal_width().map(|columns| columns.saturating_sub(longest + 3).max(MIN_WIDTH));
    let width = width.unwrap_or(DEFAULT_WIDTH);
    let rows = tools.iter().map(|tool| {
        let name = tool["name"].as_str().unwrap_or("");
        let description = tool["description"].as_str().unwrap_or("");
        let first = description.lines().next().unwrap_or("");
        let shown = match first.char_indices().nth(width) {
            Some((end, _)) => format!("{}…", &first[..end]),
            None => first.to_owned(),
        };
        vec![name.to_owned(), shown]
    });
    table(&["tool", "description"], &rows.collect::<Vec<_>>())
}

/// Returns the width of the terminal on stdout in columns, if known.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Formats a tool's result: its text, or everything as JSON.
pub(crate) fn answer(result: &Value, json: bool) -> String {
    if json {
        return pretty(result);
    }
    let blocks = list(result, "content").iter();
    let texts = blocks.map(|one| one["text"].as_str().map_or_else(|| pretty(one), str::to_owned));
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { pretty(result) } else { texts.join("\n") }
}

pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Returns foreign text on a single line, with invisible characters and terminal control sequences
/// escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_plain(&mut out, c));
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

/// Escapes text from any source for output to a terminal. Keeps line breaks and our own colours.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(colour) = COLOURS.iter().find(|colour| rest.starts_with(**colour)) {
            out.push_str(colour);
            rest = &rest[colour.len()..];
            continue;
        }
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.starts_with("\r\n") => {}
            c => push_plain(&mut out, c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Formats a table with columns as wide as their longest cell, and states in colour on a terminal.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let colour = std::io::stdout().is_terminal();
    let mut widths: Vec<_> = head.iter().map(|cell| cell.len()).collect();
    let mut rows = rows.to_vec();
    rows.iter_mut().flatten().for_each(|cell| *cell = plain(cell));
    for (width, cell) in rows.iter().flat_map(|row| row.iter().enumerate()) {
        widths[width] = widths[width].max(cell.chars().count());
    }
    let mut lines = vec![table_line(head, &widths).to_uppercase()];
    lines.extend(rows.iter().map(|row| {
        let text = table_line(row, &widths);
        if colour { coloured(&text, row) } else { text }
    }));
    lines.join("\n")
}

fn table_line(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths);
    let line: String = cells.map(|(cell, width)| format!("{:<width$}  ", cell.as_ref())).collect();
    line.trim_end().to_owned()
}

fn coloured(line: &str, row: &[String]) -> String {
    let states = [
        (UpstreamState::Connected.as_str(), 32),
        (UpstreamState::Failed.as_str(), 31),
        (UpstreamState::Unresponsive.as_str(), 31),
        (FAILING, 31),
        (UpstreamState::NeedsAuth.as_str(), 33),
        (UpstreamState::Pending.as_str(), 33),
    ];
    let cell = row.get(1).map_or("", String::as_str);
    match states.iter().find(|(state, _)| *state == cell) {
        Some((_, code)) => line.replacen(cell, &format!("\x1b[{code}m{cell}\x1b[0m"), 1),
        None => line.to_owned(),
    }
}

/// Returns an address without its query and credentials, which may be secrets.
pub(crate) fn address(url: &str) -> String {
    let Ok(mut shown) = Url::parse(url) else { return "an invalid address".to_owned() };
    shown.set_query(None);
    shown.set_fragment(None);
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.as_str().trim_end_matches('/').to_owned()
}

/// Returns an error with its causes. Skips causes that the error's own text already contains at its
/// end.
pub(crate) fn describe_error(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

#[cfg(test)]
mod tests;
