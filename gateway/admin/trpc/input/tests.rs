//! Tests of `input`.

use super::*;
use crate::trpc::input::find;

fn issues(path: &str, input: Value) -> Vec<Value> {
    let procedure = find(path).unwrap();
    procedure.check(Some(input)).err().unwrap_or_default()
}

#[test]
fn what_fits_passes_and_what_does_not_is_named_with_its_place() {
    assert!(issues("mcp.file.read", json!({"path": "a", "encoding": "hex"})).is_empty());
    assert!(issues("mcp.web.request", json!({"url": "a", "json": [1]})).is_empty());
    assert!(
        issues("mcp.database.query", json!({"query": "a", "params": [1, "b", null]})).is_empty()
    );
    assert!(find("mcp.listTools").unwrap().check(None).is_ok());
    for (path, input, code, place) in [
        ("mcp.file.read", json!({}), "invalid_type", json!(["path"])),
        ("mcp.file.read", json!({"path": 1}), "invalid_type", json!(["path"])),
        ("mcp.file.read", json!([]), "invalid_type", json!([])),
        ("mcp.file.read", json!(null), "invalid_type", json!([])),
        ("mcp.file.read", json!({"path": "a", "b": 1}), "unrecognized_keys", json!([])),
        (
            "mcp.file.read",
            json!({"path": "a", "encoding": "x"}),
            "invalid_value",
            json!(["encoding"]),
        ),
        (
            "mcp.shell.execute",
            json!({"command": "a", "timeout": 0}),
            "too_small",
            json!(["timeout"]),
        ),
        (
            "mcp.shell.execute",
            json!({"command": "a", "timeout": 1.5}),
            "invalid_type",
            json!(["timeout"]),
        ),
        (
            "mcp.shell.execute",
            json!({"command": "a", "timeout": 1e9}),
            "too_big",
            json!(["timeout"]),
        ),
        (
            "mcp.shell.execute",
            json!({"command": "a", "env": {"b": 1}}),
            "invalid_type",
            json!(["env", "b"]),
        ),
        (
            "mcp.database.query",
            json!({"query": "a", "params": [{}]}),
            "invalid_type",
            json!(["params", 0]),
        ),
        ("mcp.events", json!({"types": ["x"]}), "invalid_value", json!(["types", 0])),
    ] {
        let found = issues(path, input.clone());
        assert_eq!(found.len(), 1, "{path} {input}: {found:?}");
        assert_eq!((&found[0]["code"], &found[0]["path"]), (&json!(code), &place), "{found:?}");
    }
    assert_eq!(issues("mcp.file.write", json!({"x": 1, "y": 2})).len(), 3);
}
