//! Tests of `init::from_registry`.

#![allow(clippy::unwrap_used)]
use super::*;

fn entry(remotes: impl Into<Value>) -> Value {
    let remotes: Value = remotes.into();
    json!({"name": "com.example/files", "version": "1.2.3", "remotes": remotes})
}

#[test]
fn a_remote_becomes_an_entry_with_references() {
    let server = entry(json!([
        {"type": "sse", "url": "https://old.example.com/sse"},
        {"type": "streamable-http", "url": "https://{tenant}.example.com/{stage}/mcp",
            "variables": {"stage": {"default": "live"}, "tenant": {"isRequired": true}},
            "headers": [
                {"name": "Authorization", "value": "Bearer {api-key}", "isSecret": true},
                {"name": "X-Key", "isRequired": true},
                {"name": "X-Optional"},
            ]},
    ]));
    let (version, text) = convert("com.example/files", &server).unwrap();
    assert_eq!(version, "1.2.3");
    let expected = json!({"mcpServers": {"files": {"type": "http",
        "url": "https://${FILES_TENANT}.example.com/live/mcp",
        "headers": {"Authorization": "Bearer ${FILES_API_KEY}", "X-Key": "${FILES_X_KEY}"}}}});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}

#[test]
fn each_mistake_has_its_message() {
    let remote = |url: &str| json!([{"type": "streamable-http", "url": url}]);
    let mut unversioned = entry(remote("https://a"));
    unversioned["version"] = Value::Null;
    for (name, server, words) in [
        ("com.example/other", entry(remote("https://a")), "another server"),
        ("com.example/files", entry(json!([])), "no `remotes`"),
        ("com.example/files", entry(json!([{"type": "stdio"}])), "no `remotes`"),
        ("com.example/files", entry(json!([{"type": "sse"}])), "no `url`"),
        ("com.example/files", entry(remote("https://{a")), "no closing brace"),
        ("com.example/files", unversioned, "no version"),
    ] {
        let error = convert(name, &server).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
