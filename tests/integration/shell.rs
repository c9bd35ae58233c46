//! The built-in `shell` server in the real program: the program is its own launcher, commands run
//! confined, and no process outlives its call or the gateway.

use rustix::process::Signal;

use crate::rig::client::Request;
use crate::rig::{Gate, Value, alive, json, signal, until};

/// Starts a gateway that may run `sh` with any arguments in its folder.
async fn gate(folder: &std::path::Path) -> Gate {
    std::fs::write(folder.join("notes.txt"), "needle\n").unwrap();
    let shell = json!({
        "roots": [{"path": folder}], "programs": ["grep", "cat", "sh"], "allow_code_execution": ["sh"],
        "environment": {"GREETING": "hi"},
    });
    Gate::start(json!({"builtin": {"system": false, "example": false, "shell": shell}})).await
}

async fn run(gate: &Gate, arguments: Value) -> Value {
    let answer = gate
        .modern("/mcp", "tools/call", json!({"name": "shell__execute", "arguments": arguments}))
        .await;
    answer.result()
}

#[tokio::test]
async fn commands_run_confined_and_refusals_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let gate = gate(folder.path()).await;
    let found = run(&gate, json!({"command": "grep -n needle notes.txt"})).await;
    assert_eq!(found["structuredContent"]["stdout"], json!("1:needle\n"), "{found}");
    let refused = run(&gate, json!({"command": "cat notes.txt | sh"})).await;
    assert_eq!(refused["isError"], json!(true));
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("would start a pipe"),
        "{refused}"
    );
    let held = run(
        &gate,
        json!({"argv": ["sh", "-c", "echo $GREETING; cat /etc/shadow /etc/passwd; env"]}),
    )
    .await;
    let output = &held["structuredContent"];
    assert!(output["stdout"].as_str().unwrap().starts_with("hi\n"), "{held}");
    assert!(output["stderr"].as_str().unwrap().contains("Permission denied"), "{held}");
    assert!(
        !held.to_string().contains("root:") && !held.to_string().contains("LOCKGATE"),
        "{held}"
    );
}

#[tokio::test]
async fn nothing_outlives_the_gateway() {
    for end in [Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let mut gate = gate(folder.path()).await;
        let script = json!({"argv": ["sh", "-c", "trap '' TERM; while :; do sleep 60; done"], "timeout_ms": 1000});
        let call = json!({"name": "shell__execute", "arguments": script});
        let address = gate.address;
        let call =
            tokio::spawn(
                async move { Request::modern("/mcp", "tools/call", call).send(address).await },
            );
        let all =
            until("a program runs", async || Some(gate.children()).filter(|all| !all.is_empty()))
                .await;
        signal(gate.pid(), end);
        gate.ended().await;
        until("its programs are gone", async || (!all.iter().any(|&pid| alive(pid))).then_some(()))
            .await;
        call.abort();
    }
}
