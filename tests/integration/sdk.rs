//! The official Rust SDK as a client, in each of its lifecycles, over HTTP and over stdio.

use crate::rig::gate::{client_command, config, program};
use crate::rig::{Gate, fixture, json};

/// Runs `sdk-client`, which checks the usual requests.
fn use_server(lifecycle: &str, server: &[&str]) {
    let done = client_command("sdk-client").arg(lifecycle).args(server).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{lifecycle} {server:?}: {errors}");
}

/// the SDK works in every lifecycle over HTTP, with paged lists, for servers of both eras.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_works_over_http() {
    for era in ["modern", "legacy"] {
        let servers = json!({"f": fixture(&["--era", era])});
        let gate = Gate::start(json!({"servers": servers})).await;
        let url = format!("http://{}/mcp", gate.address);
        for lifecycle in ["initialize", "discover", "auto"] {
            use_server(lifecycle, &[&url]);
        }
    }
}

/// Also with the SDK's own choice of lifecycle.
#[test]
fn the_sdk_works_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.json");
    std::fs::write(&file, config(json!({"servers": {"f": fixture(&[])}})).to_string()).unwrap();
    let lockgate = program("lockgate");
    let words = [lockgate.to_str().unwrap(), "stdio", "--config", file.to_str().unwrap()];
    for lifecycle in ["initialize", "discover", "auto", "default"] {
        use_server(lifecycle, &words);
    }
}
