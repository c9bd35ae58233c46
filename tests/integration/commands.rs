//! `lockgate integrations`, `agents`, `organisations` and `servers add`: the API from a terminal,
//! as tables and as JSON, with credentials from a file or stdin.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

const SECRET: &str = "canary-51ab-token";

pub async fn run(gate: &Gate, arguments: &[&str], input: &str) -> Output {
    let mut command = command();
    let url = format!("http://{}", gate.address);
    command.args(arguments).args(["--url", &url]).current_dir(gate.folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    });
    done.await.unwrap()
}

#[track_caller]
fn out(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status.code());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub async fn read(gate: &Gate, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&out(&run(gate, &arguments, "").await)).unwrap()
}

#[tokio::test]
async fn an_organisation_is_run_from_a_terminal() {
    let server = Upstream::http(modern(&["t"])).await;
    let keys = json!({"store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]}});
    let gate = Gate::start(keys).await;
    let url = format!("http://{}/mcp", server.address);
    let added = out(&run(&gate, &["servers", "add", "Time", &url], "").await);
    assert!(added.contains("Time") && added.contains("warning: "), "a table: {added}");
    let secret = ["servers", "add", "Sealed", &url, "--auth", "bearer-token"];
    let secret = [&secret[..], &["--credentials", "-", "--validate", "--json"]].concat();
    let added = out(&run(&gate, &secret, &format!("{SECRET}\n")).await);
    assert!(!added.contains(SECRET), "{added}");
    let added: Value = serde_json::from_str(&added).unwrap();
    assert_eq!(added["hasCredentials"], true, "{added}");
    let listed = read(&gate, &["integrations", "list"]).await;
    assert_eq!(listed["total"], 2, "{listed}");
    let id = added["id"].as_str().unwrap();
    let valid = out(&run(&gate, &["integrations", "validate", id], "").await);
    assert!(valid.contains("ok: 1 tool,"), "{valid}");
    let agent = read(&gate, &["agents", "create", "Mine"]).await;
    let agent = agent["id"].as_str().unwrap();
    let assigned = out(&run(&gate, &["agents", "assign", agent, id], "").await);
    assert!(assigned.contains("Sealed"), "{assigned}");
    // Names are accepted in place of ids.
    let named = out(&run(&gate, &["integrations", "show", "Sealed"], "").await);
    assert!(named.contains(id), "{named}");
    let named = out(&run(&gate, &["agents", "assign", "Mine", "time"], "").await);
    assert!(named.contains("Time"), "{named}");
    assert_eq!(out(&run(&gate, &["agents", "unassign", "Mine", "Time"], "").await).trim(), "done");
    let unknown = run(&gate, &["agents", "assign", "Nobody", "Time"], "").await;
    let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(words.contains("nothing is named `Nobody`"), "{words}");
    let has = read(&gate, &["agents", "integrations", agent]).await;
    assert_eq!((&has["total"], &has["items"][0]["name"]), (&json!(1), &json!("Sealed")));
    let rest = read(&gate, &["agents", "available", agent]).await;
    assert_eq!(rest["items"][0]["name"], "Time", "{rest}");
    let organisations = out(&run(&gate, &["organisations", "list"], "").await);
    assert!(organisations.lines().any(|line| line.starts_with("default ")), "{organisations}");
    assert_eq!(out(&run(&gate, &["agents", "unassign", agent, id], "").await).trim(), "done");
    assert_eq!(out(&run(&gate, &["integrations", "delete", id], "").await).trim(), "done");
    assert_eq!(read(&gate, &["agents", "delete", agent]).await, json!({"done": true}));
    let gone = run(&gate, &["integrations", "show", id], "").await;
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(!gone.status.success() && words.contains("there is no such integration"), "{words}");
    let tried = run(&gate, &["servers", "add", "--predefined", "clock"], "").await;
    let words = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert!(words.contains("the catalogue has no such entry"), "{words}");
    gate.configure(json!({"catalogue": {"clock": {"url": url, "title": "Clock"}}}));
    until("the catalogue is there", async || {
        out(&run(&gate, &["integrations", "predefined"], "").await).contains("clock").then_some(())
    })
    .await;
    let added = out(&run(&gate, &["integrations", "add", "--predefined", "clock"], "").await);
    assert!(added.contains("Clock") && added.contains("clock"), "{added}");
    let both = run(&gate, &["servers", "add", "A", &url, "--predefined", "clock"], "").await;
    assert_eq!(both.status.code(), Some(2), "an address or an entry");
    let broken = run(&gate, &["servers", "add", "Time", &url], "").await;
    let words = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(words.contains("the name is taken"), "{words}");
}

/// The gateway's address may come from the environment, and an error is printed once.
#[tokio::test]
async fn the_gateway_is_named_by_the_environment_and_an_error_is_told_once() {
    let gate = Gate::start(json!({})).await;
    let ask = async |arguments: &'static [&'static str], url: String| {
        let mut command = command();
        command.args(arguments).env("LOCKGATE_URL", url);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let url = format!("http://{}", gate.address);
    out(&ask(&["agents", "create", "Mine"], url.clone()).await);
    let listed = out(&ask(&["agents", "list"], url.clone()).await);
    assert!(listed.contains(&format!("{url}/agents/")), "{listed}");
    for arguments in [&["agents", "list"][..], &["tools"]] {
        let refused = ask(arguments, "http://127.0.0.1:1".to_owned()).await;
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains("unreachable"), "{words}");
        assert_eq!(words.matches("onnection refused").count(), 1, "{words}");
        assert!(words.matches("connect failed").count() <= 1, "{words}");
    }
}

/// The configuration's variables need not be set for the commands.
#[tokio::test]
async fn commands_ask_the_gateway_of_the_configuration_that_is_named_or_found() {
    let gate = Gate::start(json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.yaml");
    let write = |address: &str| {
        let text = format!(
            "listen: {address}\nservers:\n  a:\n    url: https://a.invalid/mcp\n    \
                headers: {{ Authorization: \"Bearer ${{NOT_SET_HERE}}\" }}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let ask = async |arguments: &[&str], folder: &std::path::Path| {
        let mut command = command();
        command.args(arguments).current_dir(folder);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    write(&gate.address.to_string());
    out(&ask(&["agents", "create", "Mine"], folder.path()).await);
    let named = ["agents", "list", "--config", file.to_str().unwrap()];
    let listed = out(&ask(&named, gate.folder.path()).await);
    assert!(listed.contains("Mine"), "{listed}");
    write("127.0.0.1:1");
    for arguments in [&["agents", "list"][..], &["approvals", "list"]] {
        let refused = ask(arguments, folder.path()).await;
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(words.contains("the gateway at http://127.0.0.1:1 is unreachable"), "{words}");
        assert_eq!(words.matches("127.0.0.1:1").count(), 1, "{words}");
    }
    write("${NOT_SET_HERE}");
    let unknown = ask(&["agents", "list"], folder.path()).await;
    let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(words.contains("--url") && words.contains("NOT_SET_HERE is not set"), "{words}");
}

/// A development gateway generates a vault key on demand, readable only by its owner, logs this,
/// and reuses the key.
#[tokio::test]
async fn a_development_gateway_makes_its_key_with_the_first_credential() {
    use std::os::unix::fs::PermissionsExt;
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({})).await;
    let file = gate.folder.path().join(".lockgate/vault.key");
    let url = format!("http://{}/mcp", server.address);
    out(&run(&gate, &["servers", "add", "Plain", &url], "").await);
    assert!(!file.exists());
    let sealed = ["servers", "add", "Sealed", &url, "--auth", "bearer-token"];
    let sealed = [&sealed[..], &["--credentials", "-"]].concat();
    out(&run(&gate, &sealed, SECRET).await);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(gate.log().contains("vault.key was created"), "{}", gate.log());
    let again = ["vault", "rotate", "--config", "lockgate.json"];
    let mut command = command();
    command.args(again).current_dir(gate.folder.path());
    let rotated = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(out(&rotated).contains("0 credentials resealed, 1 were current"), "{rotated:?}");
}
