//! Imports server entries from a client's own file: Claude Desktop and Cursor (`mcpServers`), VS
//! Code (`servers`, or `mcp.servers` in its settings). Settings that only the client supports are
//! dropped with a warning.

use std::collections::BTreeMap;

use crate::problem::{Problem, Problems};
use crate::source::node::{Node, Value};

/// Locations of the servers in clients' files, in search order.
const SHAPES: &[&[&str]] = &[&["mcpServers"], &["servers"], &["mcp", "servers"]];
/// Keys that only affect a client's own display; dropped without a warning.
const SILENT: &[&str] = &[
    "alwaysAllow",
    "autoApprove",
    "description",
    "dev",
    "gallery",
    "icon",
    "metadata",
    "name",
    "trust",
    "version",
];
/// Maximum length of a server's name.
pub const MAX_SLUG: usize = 64;

/// Returns the file's entries as a layer that contains only `servers`.
pub fn layer(file: &Node, problems: &mut Problems) -> Node {
    let mut root = Node::map(file.place.clone());
    let Some((shape, servers)) = find_servers(file) else {
        let what = "has neither `mcpServers` nor `servers`";
        let hint = "import the file in which a client such as Claude Desktop, Cursor or VS Code \
            keeps its servers";
        problems.error(file.place.clone(), "", what, hint);
        return root;
    };
    let Some(servers) = servers.as_map() else {
        let what = format!("must be a section (keys and values), not {}", servers.kind());
        problems.push(Problem::error(servers.place.clone(), shape.join("."), what));
        return root;
    };
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, entry) in servers {
        let key = format!("{}.{name}", shape.join("."));
        let Some(slug) = slug(name) else {
            let what = "cannot be converted to a server name";
            problems.error(entry.key.clone(), key, what, "use a-z, 0-9 and -");
            continue;
        };
        if let Some(other) = seen.insert(slug.clone(), name) {
            let what = format!("`{other}` and `{name}` both become `{slug}`");
            problems.error(entry.key.clone(), key, what, "rename one of them");
            continue;
        }
        if slug != *name {
            let what = format!("the server is named `{slug}` here");
            problems.warning(entry.key.clone(), &key, what, "names are a-z, 0-9 and -");
        }
        if let Some(node) = server(entry, &key, problems) {
            root.put(&["servers", &slug], node);
        }
    }
    root
}

/// Returns the path of the servers in a client's file, and their node.
pub fn find_servers(file: &Node) -> Option<(&'static [&'static str], &Node)> {
    SHAPES.iter().find_map(|shape| Some((*shape, file.get(shape)?)))
}

/// Makes a name valid: lower case, with `-` for all other characters.
fn slug(name: &str) -> Option<String> {
    let mut slug = String::new();
    for c in name.chars().take(4 * MAX_SLUG) {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(MAX_SLUG);
    let slug = if name == slug { slug.as_str() } else { slug.trim_matches('-') };
    (!slug.is_empty()).then(|| slug.to_string())
}

fn server(node: &Node, key: &str, problems: &mut Problems) -> Option<Node> {
    let Some(entry) = node.as_map() else {
        let what = format!("must be a section (keys and values), not {}", node.kind());
        problems.push(Problem::error(node.place.clone(), key, what));
        return None;
    };
    if starts_ourselves(node) {
        let what = "this entry starts Lockgate itself; it is omitted";
        let hint = "a gateway behind itself would loop forever";
        problems.warning(node.place.clone(), key, what, hint);
        return None;
    }
    let mut map = BTreeMap::new();
    for (name, field) in entry {
        let (name, node) = match name.as_str() {
            "command" | "cwd" | "url" | "enabled" => (name.as_str(), field.clone()),
            "args" | "env" | "headers" => (name.as_str(), as_text(field)),
            "serverUrl" | "httpUrl" => ("url", field.clone()),
            "type" | "transport" => ("transport", field.clone()),
            "disabled" => ("enabled", negated(field)),
            _ => {
                if !SILENT.contains(&name.as_str()) {
                    let what = "only the client supports this; it is omitted";
                    let hint = "configure it under `servers` of Lockgate's own file";
                    problems.warning(field.key.clone(), format!("{key}.{name}"), what, hint);
                }
                continue;
            }
        };
        map.insert(name.to_string(), node);
    }
    if !map.contains_key("transport")
        && let Some(url) = map.get("url")
        && url.as_text().is_some_and(is_sse_address)
    {
        let sse = Node::text("sse", url.key.clone());
        map.insert("transport".to_string(), sse);
    }
    Some(Node { value: Value::Map(map), ..node.clone() })
}

/// Returns whether an address ends in `/sse`, from which clients infer HTTP+SSE without a
/// configured transport.
fn is_sse_address(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.trim_end_matches('/').ends_with("/sse")
}

/// Returns whether an entry starts Lockgate; importing it would start the gateway recursively
/// without end.
fn starts_ourselves(entry: &Node) -> bool {
    let command = entry.text_at(&["command"]).unwrap_or("");
    let name = command.rsplit(['/', '\\']).next();
    matches!(name, Some("lockgate" | "lockgate.exe"))
}

fn negated(node: &Node) -> Node {
    match node.value {
        Value::Bool(value) => Node { value: Value::Bool(!value), ..node.clone() },
        _ => node.clone(),
    }
}

/// Converts numbers and booleans to text, as clients do in arguments and environments. JSON keeps
/// their spelling.
fn as_text(node: &Node) -> Node {
    let mut texts = node.clone();
    texts.visit_mut(&mut Vec::new(), &mut |_, node| match node.value {
        Value::Integer(number) => node.value = Value::Text(number.to_string()),
        Value::Bool(value) => node.value = Value::Text(value.to_string()),
        _ => {}
    });
    texts
}

#[cfg(test)]
mod tests;
