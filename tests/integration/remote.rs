//! `lockgate servers`, `tools` and `call` with `--url`: answered by the running gateway, with its
//! names and its key, without reading the local configuration.

use std::process::Output;

use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json};

const KEY: &str = "correct-horse-battery-staple-9";

/// Runs the command in a folder with a broken configuration, which must be ignored.
async fn ask(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lockgate.yaml"), "servers: [").unwrap();
    let mut command = command();
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder.path());
    tokio::task::spawn_blocking(move || (command.output().unwrap(), folder)).await.unwrap().0
}

#[track_caller]
fn out(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status.code());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn a_running_gateway_answers_the_command_line() {
    let server = Upstream::http(modern(&["one", "two"])).await;
    let more =
        json!({"servers": {"a": server.config()}, "builtin": {"system": true, "example": false}});
    let gate = Gate::start(more).await;
    let url = format!("http://{}", gate.address);
    let whole = format!("{url}/mcp");
    for at in [url.as_str(), &format!("{url}/"), &whole] {
        let listed: Value =
            serde_json::from_str(&out(&ask(&["tools", "--json", "--url", at], &[]).await)).unwrap();
        let names: Vec<_> =
            listed.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert!(names.contains(&"a__one") && names.contains(&"a__two"), "{at}: {names:?}");
    }
    let own: Value = serde_json::from_str(&out(&ask(
        &["tools", "--json", "--url", &format!("{url}/servers/a/mcp")],
        &[],
    )
    .await))
    .unwrap();
    assert_eq!(
        own.as_array().unwrap().iter().map(|tool| &tool["name"]).collect::<Vec<_>>(),
        ["one", "two"]
    );
    assert_eq!(out(&ask(&["call", "--url", &url, "a__two", "{}"], &[]).await).trim(), "two");
    let servers = out(&ask(&["servers", "--url", &url], &[]).await);
    assert!(
        servers.lines().any(|line| line.starts_with("a ") && line.contains("connected")),
        "{servers}"
    );
    let unknown = ask(&["call", "--url", &url, "a__three", "{}"], &[]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("unknown tool: a__three"));
}

#[tokio::test]
async fn a_key_is_taken_from_the_flag_or_the_variable() {
    let server = Upstream::http(modern(&["one"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "auth": {"key": KEY}})).await;
    let url = format!("http://{}", gate.address);
    let call = ["call", "--url", &url, "a__one", "{}"];
    for (flag, variable) in [
        (Some(KEY), None),
        (None, Some(KEY)),
        (Some(KEY), Some("another-key-of-the-same-length-30")),
    ] {
        let mut arguments = call.to_vec();
        arguments.extend(flag.iter().flat_map(|key| ["--key", *key]));
        let variables: Vec<_> = variable.iter().map(|key| ("LOCKGATE_CLIENT_KEY", *key)).collect();
        assert_eq!(out(&ask(&arguments, &variables).await).trim(), "one");
    }
    for (arguments, words) in [
        (&call[..], "--key or LOCKGATE_CLIENT_KEY"),
        (&["tools", "--url", "example.com"], "http:// or https://"),
        (
            &["tools", "--url", "http://127.0.0.1:1"],
            "the gateway at http://127.0.0.1:1 is unreachable",
        ),
        (&["servers", "--url", "http://127.0.0.1:1"], "and the port of its address."),
        (&["tools", "--key", KEY], "--url"),
        (&["servers", "--url", &url, "--key", KEY], "enable `builtin.system`"),
    ] {
        let refused = ask(arguments, &[]).await;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(words), "{arguments:?}: {said}");
        assert!(!said.contains(KEY), "{said}");
    }
    assert_eq!(server.count("tools/call"), 3);
}
