//! The guards of server processes and of the built-in shell's programs: no descendant outlives its
//! server or the gateway, even if it detaches and however they end.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, Upstream, Value, alive, children, json, signal, until};
use crate::stdio::Pipe;

/// Returns a command for a process that leaves its group, session and parent, ignores signals, and
/// writes its pid to a file.
fn stray(file: &Path) -> String {
    let script = format!(
        "trap \\\"\\\" TERM HUP INT; echo $$ >> {}; while :; do sleep 0.1; done",
        file.display()
    );
    format!("(setsid sh -c \"{}\" &) ;", script.replace('$', "\\$"))
}

/// Returns a busy server that has closed its input and ignores signals, with two stray children.
fn busy(file: &Path) -> Value {
    let script = format!(
        "{0} {0} trap '' TERM HUP INT; echo $$ >> {1}; exec 0<&-; while :; do sleep 0.1; done",
        stray(file),
        file.display()
    );
    json!({"command": "bash", "args": ["-c", script]})
}

/// Returns a stdio server with a stray child.
fn with_stray(server: &Upstream, file: &Path) -> Value {
    let mut config = server.config();
    let bridge = config["args"][1].as_str().unwrap();
    config["args"][1] = format!("{} {bridge}", stray(file)).into();
    config
}

/// Waits for this many processes in a file; returns their pids.
async fn processes(file: &Path, count: usize) -> Vec<u32> {
    until("the processes run", async || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (all.len() >= count && all.iter().all(|&pid| alive(pid))).then_some(all)
    })
    .await
}

/// Waits until all processes have ended; returns the time taken.
async fn gone(all: &[u32]) -> Duration {
    let began = Instant::now();
    until("every process has ended", async || all.iter().all(|&pid| !alive(pid)).then_some(()))
        .await;
    began.elapsed()
}

const EVENT_TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn nothing_is_left_3_s_after_the_gateway_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let (new, old) = (
        Upstream::lines(modern(&["t"])).await,
        Upstream::lines(legacy("2025-06-18", &["t"])).await,
    );
    let servers = json!({"busy": busy(&file), "new": with_stray(&new, &file), "old": with_stray(&old, &file)});
    let mut gate = Gate::launch(json!({"servers": servers})).await;
    for tool in ["new__t", "old__t"] {
        until("the server is there", async || (gate.call(tool).await.code() == 0).then_some(()))
            .await;
    }
    let mut all = processes(&file, 5).await;
    all.extend(gate.children());
    signal(gate.pid(), Signal::KILL);
    gate.ended().await;
    let took = gone(&all).await;
    assert!(took < EVENT_TIMEOUT, "{took:?}");
}

#[tokio::test]
async fn nothing_is_left_3_s_after_a_stdio_gateway_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let server = Upstream::lines(modern(&["t"])).await;
    let servers = json!({"busy": busy(&file), "new": with_stray(&server, &file)});
    let mut pipe = Pipe::start(json!({"servers": servers}));
    until("the server is there", async || {
        let answer =
            pipe.modern(json!(1), "tools/call", json!({"name": "new__t", "arguments": {}})).await;
        answer["result"].is_object().then_some(())
    })
    .await;
    let all = processes(&file, 4).await;
    signal(pipe.pid(), Signal::KILL);
    let took = gone(&all).await;
    assert!(took < EVENT_TIMEOUT, "{took:?}");
}

/// Also on an orderly end of the gateway, a reconfiguration of the server, and an exit of the
/// server.
#[tokio::test]
async fn nothing_of_a_server_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let server = Upstream::lines(modern(&["t"])).await;
    let config = |name: &str| json!({"servers": {"a": with_stray(&server, &file(name))}});
    let mut gate = Gate::start(config("first")).await;
    let first = processes(&file("first"), 1).await;
    // The server is killed: its stray child is killed too, and a new server starts.
    for pid in gate.children() {
        if !first.contains(&pid) {
            signal(pid, Signal::KILL);
        }
    }
    gone(&first).await;
    until("it is back", async || (gate.call("a__t").await.code() == 0).then_some(())).await;
    let second: Vec<u32> = until("another stray", async || {
        let text = std::fs::read_to_string(file("first")).unwrap();
        let new: Vec<u32> = text
            .lines()
            .filter_map(|l| l.parse().ok())
            .filter(|pid| !first.contains(pid))
            .collect();
        (!new.is_empty()).then_some(new)
    })
    .await;
    gate.configure(config("third"));
    let third = processes(&file("third"), 1).await;
    gone(&second).await;
    gate.terminate();
    assert_eq!(gate.ended().await, Some(0));
    assert!(third.iter().all(|&pid| !alive(pid)), "all is gone when the gateway is");
}

/// A program of the built-in shell with descendants that ignore signals.
#[tokio::test]
async fn nothing_of_a_program_is_left_3_s_after_the_gateway_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let root = json!({"path": folder.path(), "write": true});
    let shell = json!({"roots": [root], "programs": ["bash"], "allow_code_execution": ["bash"]});
    let mut gate =
        Gate::start(json!({"builtin": {"system": false, "example": false, "shell": shell}})).await;
    let stubborn = "trap '' TERM HUP INT; echo $BASHPID >> pids; while :; do sleep 0.1; done";
    let script =
        format!("setsid sleep 1000 & sleep 1000 & (({stubborn}) & {stubborn}) & {stubborn}");
    let call = json!({"name": "shell__execute", "arguments": {"argv": ["bash", "-c", script]}});
    let address = gate.address;
    let call =
        tokio::spawn(
            async move { Request::modern("/mcp", "tools/call", call).send(address).await },
        );
    let mut all = processes(&folder.path().join("pids"), 3).await;
    for pid in gate.children() {
        all.extend(children(pid));
        all.push(pid);
    }
    assert!(all.len() > 5, "the program, and what it started: {all:?}");
    signal(gate.pid(), Signal::KILL);
    gate.ended().await;
    let took = gone(&all).await;
    assert!(took < EVENT_TIMEOUT, "{took:?}");
    call.abort();
}
