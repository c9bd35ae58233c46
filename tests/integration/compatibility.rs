//! Clients of every revision with servers of every revision, feature by feature. Generates the
//! table of docs/compatibility.md and compares it; `LOCKGATE_WRITE=1` updates it. Each message to a
//! client is validated against the schema of its revision.

pub(crate) mod client;
mod features;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use client::Client;
use features::{Cell, FEATURES};
use futures_util::future::join_all;

use crate::rig::gate::program;
use crate::rig::{Gate, json};

pub const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// A fixture server with a single revision, over HTTP.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) async fn start(revision: &str) -> Self {
        let mut command = Command::new(program("fixture-server"));
        command.args(["--revision", revision, "--http", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
            line
        });
        let line = line.await.unwrap();
        let url = line.trim().strip_prefix("listening ").expect("an address").to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tests a server with each client revision; returns the cells in the order of `FEATURES`.
async fn play(gate: &Gate, server: &'static str, invalid: &mut Vec<String>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for revision in REVISIONS {
        let mut client = Client::open(gate, revision, format!("/servers/r{server}/mcp")).await;
        let mut cells = Vec::new();
        for feature in FEATURES {
            let cell = feature.probe(&mut client, server).await;
            cells.push(cell);
        }
        rows.push(cells);
        let of = |problem: &String| format!("{revision} at {server}: {problem}");
        invalid.extend(client.invalid.iter().map(of));
    }
    rows
}

#[tokio::test]
async fn every_client_revision_uses_every_server_revision() {
    let servers = join_all(REVISIONS.iter().map(|revision| Server::start(revision))).await;
    let mut config = json!({"servers": {}});
    for (revision, server) in REVISIONS.iter().zip(&servers) {
        config["servers"][format!("r{revision}")] = json!({"url": server.url});
    }
    let gate = Gate::start(config).await;
    let played = REVISIONS.iter().map(|server| {
        let gate = &gate;
        async move {
            let mut invalid = Vec::new();
            let rows = play(gate, server, &mut invalid).await;
            (rows, invalid)
        }
    });
    let played = join_all(played).await;
    let invalid: Vec<&String> = played.iter().flat_map(|(_, invalid)| invalid).collect();
    assert!(invalid.is_empty(), "{invalid:#?}");
    let columns: Vec<_> = played.iter().map(|(rows, _)| rows).collect();
    let mut wrong = Vec::new();
    for (server, rows) in REVISIONS.iter().zip(&columns) {
        for (client, cells) in REVISIONS.iter().zip(rows.iter()) {
            for (feature, cell) in FEATURES.iter().zip(cells) {
                if let Cell::Wrong(why) = cell {
                    wrong.push(format!("{}: {client} at {server}: {why}", feature.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    compare(&write_table(&columns));
}

fn write_table(columns: &[&Vec<Vec<Cell>>]) -> String {
    let mut text = String::new();
    for (at, feature) in FEATURES.iter().enumerate() {
        let _ = writeln!(text, "\n### {}\n", feature.name);
        let _ = writeln!(text, "| client \\ server | {} |", REVISIONS.join(" | "));
        text.push_str("|---|---|---|---|---|---|\n");
        for (row, client) in REVISIONS.iter().enumerate() {
            let cells: Vec<String> =
                columns.iter().map(|column| column[row][at].to_string()).collect();
            let _ = writeln!(text, "| **{client}** | {} |", cells.join(" | "));
        }
    }
    text
}

/// Marks the start of the generated part.
const MARK: &str = "<!-- made by tests/integration/compatibility.rs -->\n";

#[allow(clippy::disallowed_methods, reason = "says whether the page is to be written anew")]
fn is_to_be_written() -> bool {
    std::env::var_os("LOCKGATE_WRITE").is_some()
}

fn compare(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, written) = text.split_once(MARK).expect("the mark of the generated part");
    if is_to_be_written() {
        std::fs::write(&page, format!("{head}{MARK}{table}")).unwrap();
    } else if written != table {
        let differs = written.lines().zip(table.lines()).find(|(old, new)| old != new);
        panic!(
            "docs/compatibility.md is not what was played (LOCKGATE_WRITE=1 writes it): {differs:?}"
        );
    }
}
