//! Writes a server as idiomatic YAML.

use std::fmt::Write as _;

use super::secrets::Secrets;
use crate::source::node::{Node, Value};
use crate::validate::is_own_header;

/// Words that some version of YAML does not read as text.
const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// Writes the entry of a server, indented by two spaces.
pub fn write_server(slug: &str, server: &Node, secrets: &mut Secrets) -> String {
    let mut out = String::new();
    for key in ["command", "url", "transport", "cwd"] {
        let Some(node) = server.get(&[key]) else { continue };
        let Some(text) = node.as_text() else { continue };
        let path = format!("servers.{slug}.{key}");
        let text = match key {
            "url" => secrets.address(text, slug, &path, &node.place),
            _ => secrets.plain(text, &path, &node.place),
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
        let path = format!("servers.{slug}.args.{at}");
        words.push(scalar(&secrets.argument(text, &before, slug, &path, &item.place)));
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
    for (name, entry) in map {
        let Some(text) = entry.node.as_text() else { continue };
        if section == "headers" && is_own_header(name) {
            continue;
        }
        out.push_str(&std::mem::take(&mut head));
        let path = format!("servers.{slug}.{section}.{name}");
        let text = match section {
            "env" => secrets.variable(text, name, slug, &path, &entry.node.place),
            _ => secrets.header(text, name, slug, &path, &entry.node.place),
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
