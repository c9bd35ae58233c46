//! Scripts of well-behaved servers.

use serde_json::{Value, json};

use super::script::{HeardMessage, Say};

/// Returns a tool without arguments.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

/// Returns a well-behaved modern server with these tools; each returns its own name.
pub fn modern(tools: &[&str]) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    modern_with(tools)
}

pub fn modern_with(tools: Vec<Value>) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    move |heard| {
        match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
        }))),
        "tools/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
        }))),
        "tools/call" => heard.text_result(heard.body["params"]["name"].as_str().unwrap_or_default()),
        method if method.starts_with("notifications/") => Say::Json(Value::Null),
        _ => Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
    }
    }
}

/// Returns a well-behaved legacy server with a session.
pub fn legacy(
    version: &'static str,
    tools: &[&str],
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    move |heard| {
        match heard.method() {
        "initialize" => Say::Status(200, vec![("mcp-session-id", "abc".into())], heard.result(json!({
            "protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"},
        }))),
        "tools/list" => Say::Json(heard.result(json!({"tools": tools}))),
        "tools/call" => {
            let name = heard.body["params"]["name"].as_str().unwrap_or_default();
            Say::Json(heard.result(json!({"content": [{"type": "text", "text": name}]})))
        }
        "ping" => Say::Json(heard.result(json!({}))),
        method if method.starts_with("notifications/") || method.is_empty() => Say::Json(Value::Null),
        _ => Say::Status(400, Vec::new(), heard.error(-32000, "no session")),
    }
    }
}
