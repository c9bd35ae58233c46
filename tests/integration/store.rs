//! `lockgate store` and `lockgate vault` as operators run them: on a missing store, and on a
//! foreign file.

use std::path::Path;
use std::process::Output;

use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::{Gate, Value, json, until};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Runs a command beside a configuration file.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let config = "store: { file: data/own.db }\nbuiltin: { example: true }\n";
    std::fs::write(folder.join("lockgate.yaml"), config).unwrap();
    let mut command = command();
    command.args(arguments).env("MCP_ENCRYPTION_KEY", KEY).current_dir(folder);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_store_that_is_not_there_is_whole_and_stays_away() {
    let folder = tempfile::tempdir().unwrap();
    let checked = run(folder.path(), &["store", "check"]);
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("nothing has been stored yet"));
    let backup = run(folder.path(), &["store", "backup", "copy.db"]);
    assert!(!backup.status.success() && said(&backup).contains("nothing has been stored yet"));
    let rotated = run(folder.path(), &["vault", "rotate", "--json"]);
    assert!(said(&rotated).contains("\"resealed\": 0"), "{}", said(&rotated));
    assert!(!folder.path().join("data").exists());
    let restored = run(folder.path(), &["store", "restore", "copy.db"]);
    assert!(!restored.status.success() && said(&restored).contains("there is no file"));
}

#[test]
fn a_file_of_somebody_else_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data/own.db");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let letter = "dear friend, this is a letter and no database\n".repeat(100);
    std::fs::write(&file, &letter).unwrap();
    for arguments in [["store", "check"], ["vault", "rotate"]] {
        let output = run(folder.path(), &arguments);
        assert!(!output.status.success());
        let said = said(&output);
        assert!(said.contains("own.db is not a database of Lockgate"), "{said}");
        assert!(said.contains("store.file") && !said.contains(KEY), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), letter);
}

#[test]
fn a_key_that_can_be_guessed_is_refused_and_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command();
    command.args(["vault", "rotate"]).env("MCP_ENCRYPTION_KEY", "hunter2").current_dir(&folder);
    let output = command.output().unwrap();
    let said = said(&output);
    assert!(!output.status.success() && said.contains("store.keys"), "{said}");
    assert!(said.contains("MCP_ENCRYPTION_KEY") && !said.contains("hunter2"), "{said}");
}

/// Returns the response of `/readyz` at a gateway with an unreachable database.
async fn readiness_without_store(required: Value) -> (u16, Value) {
    // Bound but not listening: the port stays reserved, and connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let place = socket.local_addr().unwrap();
    let store = json!({"url": format!("postgres://nobody@{place}/none"), "required": required});
    let gate = Gate::launch(json!({"store": store})).await;
    until("the servers have settled", async || {
        let ready = Request::bare("GET", "/readyz", "").send(gate.address).await;
        let shown = ready.json();
        (shown["state"] != "initializing").then_some((ready.status, shown))
    })
    .await
}

#[tokio::test]
async fn a_gateway_that_starts_without_its_store_is_not_ready_unless_it_may_be() {
    let (status, shown) = readiness_without_store(json!(true)).await;
    assert_eq!((status, &shown["state"]), (503, &json!("waiting_for_store")), "{shown}");
    assert_eq!(shown["store"], "unavailable");
    let (status, shown) = readiness_without_store(json!(false)).await;
    assert_eq!((status, &shown["state"]), (200, &json!("ready")), "{shown}");
    assert_eq!(shown["store"], "unavailable");
}
