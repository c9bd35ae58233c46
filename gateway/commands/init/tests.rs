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

/// A registry cannot make the gateway send variables or files to its servers.
#[test]
fn values_of_a_registry_are_no_references() {
    let header = |value: &str, default: &str| {
        json!([{"type": "sse", "url": "https://a", "headers": [
            {"name": "X-T", "value": value, "variables": {"t": {"default": default}}}]}])
    };
    let url = json!([{"type": "sse", "url": "https://a/{t}",
        "variables": {"t": {"default": "${GITHUB_TOKEN:-x}"}}}]);
    for remotes in [
        url,
        header("{t}", "${GITHUB_TOKEN:-x}"),
        header("${GITHUB_TOKEN}", ""),
        header("${t}", "{GITHUB_TOKEN}"),
        header("file:/etc/token", ""),
        header("{t}:/etc/token", "FILE"),
    ] {
        assert!(convert("com.example/files", &entry(remotes.clone())).is_err(), "{remotes}");
    }
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
