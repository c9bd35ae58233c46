//! Configuration snippets that connect MCP clients to an endpoint of this gateway.

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::sessions::is_on_https;

/// Placeholder for an unknown key.
const KEY: &str = "YOUR_KEY";

/// The snippet for one client.
pub(crate) struct Snippet {
    pub(crate) client: &'static str,
    /// The place to paste the text.
    pub(crate) place: &'static str,
    pub(crate) text: String,
}

/// Returns the address of an endpoint with the scheme of the browser: a proxy in front of the
/// gateway may terminate TLS.
pub(crate) fn find_address(endpoint: &str, headers: &HeaderMap) -> String {
    match (is_on_https(headers), endpoint.strip_prefix("http://")) {
        (true, Some(rest)) => format!("https://{rest}"),
        _ => endpoint.to_owned(),
    }
}

/// Returns the snippets for an endpoint. `key` is the API key, if known; without `needs_key` the
/// gateway accepts requests without a key.
pub(crate) fn make_snippets(
    name: &str,
    address: &str,
    key: Option<&str>,
    needs_key: bool,
) -> Vec<Snippet> {
    let name = make_name(name);
    let bearer = format!("Bearer {}", key.unwrap_or(KEY));
    let mut command = format!("claude mcp add --transport http {name} {address}");
    let mut cursor = json!({"url": address});
    let mut code = json!({"type": "http", "url": address});
    if needs_key || key.is_some() {
        command.push_str(&format!(" --header \"Authorization: {bearer}\""));
        for entry in [&mut cursor, &mut code] {
            entry["headers"] = json!({"Authorization": bearer});
        }
    }
    vec![
        Snippet { client: "Claude Code", place: "In a terminal", text: command },
        Snippet {
            client: "Cursor",
            place: "In .cursor/mcp.json",
            text: write(&json!({"mcpServers": {&name: cursor}})),
        },
        Snippet {
            client: "VS Code",
            place: "In .vscode/mcp.json",
            text: write(&json!({"servers": {&name: code}})),
        },
    ]
}

fn write(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Converts a name to lower-case letters, digits and hyphens, which clients accept and shells need
/// not quote.
fn make_name(name: &str) -> String {
    let mut made = String::new();
    for letter in name.to_lowercase().chars() {
        if letter.is_ascii_alphanumeric() {
            made.push(letter);
        } else if !made.is_empty() && !made.ends_with('-') {
            made.push('-');
        }
    }
    let made = made.trim_end_matches('-');
    if made.is_empty() { "lockgate".to_owned() } else { made.to_owned() }
}

#[cfg(test)]
mod tests;
