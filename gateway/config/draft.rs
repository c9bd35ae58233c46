//! Drafts a first configuration file with comments, optionally with the servers of clients' own
//! files. Values that may be secrets are replaced by references, and the caller gets the variables
//! to set.

mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use secrets::RequiredVariable;
use secrets::{Secrets, WrittenAt};

use crate::problem::{Problem, Problems, Report};
use crate::source::node::{Node, Value};
use crate::source::{display_path, read_file, read_json};
use crate::validate::is_own_header;
use crate::{expand, import, load};

/// The head of the file.
const HEAD: &str = include_str!("draft/head.yaml");

/// The example servers of a file without imported servers.
const NO_SERVERS: &str = include_str!("draft/example.yaml");

/// The comment above imported servers.
const SERVERS: &str = "# The MCP servers behind the gateway; ${NAME} comes from the environment.\n";

/// Commented-out settings that are commonly needed next.
const TAIL: &str = include_str!("draft/more.yaml");

/// Services with MCP servers that require OAuth.
const OAUTH_HOSTS: [&str; 6] = [
    "api.githubcopilot.com",
    "mcp.asana.com",
    "mcp.atlassian.com",
    "mcp.linear.app",
    "mcp.notion.com",
    "mcp.sentry.dev",
];

/// The drafted file, with information for the operator.
pub struct Draft {
    pub text: String,
    /// Names of the imported servers.
    pub servers: Vec<String>,
    /// The variables that the file refers to, by name.
    pub variables: Vec<RequiredVariable>,
    /// Changed and omitted settings.
    pub notes: Vec<Problem>,
}

/// Returns whether a client's file contains servers. An unreadable file counts, so that its
/// mistakes are reported.
pub fn has_servers(path: &Path, cwd: &Path) -> bool {
    read_file(path, cwd, true).map_or(true, |file| import::find_servers(&file).is_some())
}

/// Drafts a configuration with the servers of these files, and of texts in the format of a client's
/// file, by their sources. Of servers with the same name, the first is taken.
///
/// # Errors
/// Every mistake in the files.
pub fn draft(
    files: &[PathBuf],
    texts: &[(PathBuf, String)],
    home: &str,
    cwd: &Path,
) -> Result<Draft, Report> {
    let mut problems = Problems::default();
    let mut secrets = Secrets::default();
    let mut taken: BTreeMap<String, Node> = BTreeMap::new();
    let mut groups = Vec::new();
    let files = files.iter().map(|path| (path, read_file(path, cwd, true)));
    let texts = texts.iter().map(|(source, text)| (source, read_json(source, text)));
    for (path, file) in files.chain(texts) {
        let Some(file) = problems.value_of(file) else { continue };
        let mut root = import::layer(&file, &mut problems);
        load::one_spelling(&mut root);
        let mut new = BTreeSet::new();
        for (slug, server) in root.map_at(&["servers"]).into_iter().flatten() {
            if let Some(first) = taken.get(slug) {
                if !load::same(first, server) {
                    let first = &first.key;
                    let what = format!("omitted: another server with this name is at {first}");
                    let hint = "add it under another name";
                    problems.warning(server.key.clone(), format!("servers.{slug}"), what, hint);
                }
                continue;
            }
            if let Some(note) = oauth_note(slug, server) {
                problems.push(note);
            }
            taken.insert(slug.clone(), server.clone());
            new.insert(slug.clone());
        }
        if !new.is_empty() {
            groups.push((path, new));
        }
    }
    for server in taken.values() {
        secrets.reserve(server);
    }
    let mut sections = String::new();
    for (path, slugs) in groups {
        let _ = writeln!(sections, "  # From {}", display_path(path, cwd).display());
        secrets.start_file(home, expand::workspace(path.parent().unwrap_or(cwd)));
        for slug in slugs {
            sections.push_str(&write_server(&slug, &taken[&slug], &mut secrets));
        }
    }
    let notes = problems.finish()?;
    let middle = if taken.is_empty() {
        NO_SERVERS.to_string()
    } else {
        format!("{SERVERS}servers:\n{sections}")
    };
    let text = format!("{HEAD}\n{middle}\n{TAIL}");
    let servers = taken.into_keys().collect();
    Ok(Draft { text, servers, variables: secrets.into_wanted(), notes })
}

/// Returns a warning for a service that requires OAuth if the entry has no token and no account.
fn oauth_note(slug: &str, server: &Node) -> Option<Problem> {
    let url = url::Url::parse(server.text_at(&["url"])?).ok()?;
    let host = OAUTH_HOSTS.into_iter().find(|host| url.host_str() == Some(host))?;
    if server.get(&["headers", "authorization"]).or_else(|| server.get(&["auth"])).is_some() {
        return None;
    }
    let what = format!("{host} requires OAuth");
    let hint = "add auth: { type: user } for an account of each caller (docs/accounts.md), \
        or a token: headers: { Authorization: \"Bearer ${TOKEN}\" }";
    Some(Problem::warning(server.key.clone(), format!("servers.{slug}"), what).hint(hint))
}

// Writes a server as idiomatic YAML.

/// Words that some version of YAML does not read as text.
const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// Writes the entry of a server, indented by two spaces.
pub fn write_server(slug: &str, server: &Node, secrets: &mut Secrets) -> String {
    let mut out = String::new();
    for key in ["command", "url", "transport", "cwd"] {
        let Some(node) = server.get(&[key]) else { continue };
        let Some(text) = node.as_text() else { continue };
        let of = WrittenAt { slug, key: &format!("servers.{slug}.{key}"), place: &node.place };
        let text = match key {
            "url" => secrets.address(text, of),
            _ => secrets.plain(text, of),
        };
        let _ = writeln!(out, "    {key}: {}", scalar(&text));
    }
    write_arguments(&mut out, slug, server, secrets);
    for section in ["env", "headers"] {
        write_section(&mut out, slug, section, server, secrets);
    }
    if let Some(Node { value: Value::Bool(enabled), .. }) = server.get(&["enabled"]) {
        let _ = writeln!(out, "    enabled: {enabled}");
    }
    let mut head = format!("  {slug}:\n");
    for (reference, id) in secrets.take_inputs() {
        let _ = writeln!(head, "    # {reference} was ${{input:{}}}", id.escape_debug());
    }
    head + &out
}

fn write_arguments(out: &mut String, slug: &str, server: &Node, secrets: &mut Secrets) {
    let Some(Node { value: Value::List(list), .. }) = server.get(&["args"]) else { return };
    let mut words = Vec::with_capacity(list.len());
    let mut before = String::new();
    for (at, item) in list.iter().enumerate() {
        let Some(text) = item.as_text() else { continue };
        let key = format!("servers.{slug}.args.{at}");
        let of = WrittenAt { slug, key: &key, place: &item.place };
        words.push(scalar(&secrets.argument(text, &before, of)));
        before = text.to_string();
    }
    let line = words.join(", ");
    if line.len() <= 80 {
        let _ = writeln!(out, "    args: [{line}]");
        return;
    }
    out.push_str("    args:\n");
    for word in words {
        let _ = writeln!(out, "      - {word}");
    }
}

fn write_section(
    out: &mut String,
    slug: &str,
    section: &str,
    server: &Node,
    secrets: &mut Secrets,
) {
    let Some(map) = server.map_at(&[section]) else { return };
    let mut head = format!("    {section}:\n");
    for (name, node) in map {
        let Some(text) = node.as_text() else { continue };
        if section == "headers" && is_own_header(name) {
            continue;
        }
        out.push_str(&std::mem::take(&mut head));
        let key = format!("servers.{slug}.{section}.{name}");
        let of = WrittenAt { slug, key: &key, place: &node.place };
        let text = match section {
            "env" => secrets.named(text, name, name, of),
            _ => secrets.header(text, name, of),
        };
        let _ = writeln!(out, "      {}: {}", scalar(name), scalar(&text));
    }
}

/// Returns a text unquoted if YAML reads it literally, otherwise in quotes.
pub fn scalar(text: &str) -> String {
    let bare = text.trim_start_matches('-');
    let starts_well =
        bare.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') || bare.starts_with("./");
    let is_word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    if starts_well && text.chars().all(is_plain) && !text.ends_with(':') && !is_word {
        return text.to_string();
    }
    serde_json::Value::from(text).to_string()
}

/// Returns whether a character has no special meaning within YAML text.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./+=:@".contains(c)
}

#[cfg(test)]
mod tests;
