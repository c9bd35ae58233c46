//! Built-in servers in the real program: the effects of a configuration reload, and the limits of
//! their caller's permissions.

use crate::rig::{Gate, Value, json, until};

/// Returns the configuration with the `file` server in a folder.
fn config(folder: &std::path::Path, write: bool) -> Value {
    let file = json!({"roots": [{"path": folder, "write": write}]});
    json!({"builtin": {"system": true, "example": true, "file": file}})
}

async fn call(gate: &Gate, name: &str, arguments: Value) -> Value {
    gate.modern("/mcp", "tools/call", json!({"name": name, "arguments": arguments})).await.result()
}

async fn told(gate: &Gate, name: &str, arguments: Value) -> String {
    call(gate, name, arguments).await.to_string()
}

#[tokio::test]
async fn a_saved_configuration_rebuilds_only_the_servers_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    let gate = Gate::start(config(folder.path(), false)).await;
    assert_eq!(
        call(&gate, "file__read", json!({"path": "a.txt"})).await["structuredContent"]["content"],
        "text"
    );
    let write = json!({"path": "b.txt", "content": "new"});
    assert!(told(&gate, "file__write", write.clone()).await.contains("is read-only"));
    assert_eq!(call(&gate, "example__echo", json!({"text": "x"})).await["isError"], false);
    gate.configure(config(folder.path(), true));
    until("the folder may be written", async || {
        (call(&gate, "file__write", write.clone()).await["isError"] == false).then_some(())
    })
    .await;
    // The unchanged server has kept its statistics.
    let echo = call(&gate, "system__tools", json!({"name": "example/echo"})).await;
    assert_eq!(echo["structuredContent"]["tools"][0]["runs"]["invocations"], 1);
    gate.configure(json!({"builtin": {"system": true, "example": false}}));
    let gone = async || {
        (!gate.tools("/mcp").await.0.iter().any(|name| name.starts_with("file__"))).then_some(())
    };
    until("the server is gone", gone).await;
    assert_eq!(gate.call("file__read").await.code(), -32602);
}

#[tokio::test]
async fn system_tools_show_and_read_no_more_than_their_caller_may() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["open.txt", "hidden.txt"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let mut config = config(folder.path(), true);
    config["policy"] = json!({
        "tools": {"allow": ["*"], "deny": ["file__delete"]},
        "resources": {"allow": ["*"], "deny": ["*hidden.txt"]},
        "servers": {"allow": ["*"], "deny": ["example"]},
    });
    let gate = Gate::start(config).await;
    let uri = |name: &str| format!("file+file://{}/{name}", folder.path().display());
    let listed = until("resources are listed", async || {
        Some(told(&gate, "system__resources", json!({})).await)
            .filter(|all| all.contains("open.txt"))
    });
    let listed = listed.await;
    assert!(!listed.contains("hidden.txt") && !listed.contains("example"), "{listed}");
    let read = call(&gate, "system__read_resource", json!({"uri": uri("open.txt")})).await;
    assert_eq!(read["structuredContent"]["contents"][0]["text"], "open.txt");
    let hidden = call(&gate, "system__read_resource", json!({"uri": uri("hidden.txt")})).await;
    let unknown = call(&gate, "system__read_resource", json!({"uri": uri("none.txt")})).await;
    assert_eq!(hidden["content"], unknown["content"]);
    assert_eq!(hidden["isError"], true);
    let tools = told(&gate, "system__tools", json!({})).await;
    assert!(
        tools.contains("file/read") && !tools.contains("file/delete") && !tools.contains("example"),
        "{tools}"
    );
    assert!(!told(&gate, "system__servers", json!({})).await.contains("example"));
}
