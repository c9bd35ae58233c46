//! Output for people: tables and text, or the same as JSON.

use std::io::IsTerminal;
use std::sync::Arc;

use lockgate_proxy::Gateway;
use lockgate_upstream::{ListKind, State};
use serde_json::{Value, json};

use crate::ask::Answer;

/// Widest description in a table.
const WIDTH: usize = 72;

/// How every server is.
pub(crate) struct Servers(Vec<Value>);

impl Servers {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Self {
        let all = gateway.servers().into_iter().map(|server| {
            let (status, catalog) = (server.status(), server.catalog());
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
            })
        });
        Self(all.collect())
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
        let keys = ["name", "state", "era", "revision", "transport", "tools", "prompts", "resources"];
        let rows: Vec<_> = self.0.iter().map(|server| keys.map(|key| text(server, key)).to_vec()).collect();
        let mut out = table(&keys, &rows);
        for server in &self.0 {
            if let Some(trouble) = server.get("trouble").and_then(Value::as_str) {
                out.push_str(&format!("\n\n{}: {trouble}", text(server, "name")));
                for line in server.get("stderr").and_then(Value::as_array).into_iter().flatten() {
                    out.push_str(&format!("\n  | {}", line.as_str().unwrap_or_default()));
                }
            }
            for line in server.get("omitted").and_then(Value::as_array).into_iter().flatten() {
                out.push_str(&format!("\n{}: left out: {}", text(server, "name"), line.as_str().unwrap_or_default()));
            }
        }
        out
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
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
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
    let states = [(State::Connected, 32), (State::Failed, 31), (State::NeedsAuth, 33), (State::Pending, 33)];
    let found = states.iter().find(|(state, _)| row.get(1).is_some_and(|cell| cell == state.as_str()));
    found.map_or_else(
        || line.to_owned(),
        |(state, code)| line.replacen(state.as_str(), &format!("\x1b[{code}m{}\x1b[0m", state.as_str()), 1),
    )
}
