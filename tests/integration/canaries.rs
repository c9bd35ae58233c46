//! The credential of an integration appears only in requests to its server: in no response, log,
//! metric, audit record or event, and in no database file, even after errors.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Say, Upstream, Value, json, until};

const FIRST: &str = "canary-first-5d1c0a77e2";
const SECOND: &str = "canary-second-b90e3f8846";
const RING: &str = "a-key-of-the-ring-that-is-long-enough";

fn config() -> Value {
    json!({
        "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
        "egress": {"organisations": "local"},
        "log": {"level": "trace"},
        "store": {"keys": [RING]},
    })
}

/// All responses to clients.
#[derive(Default)]
struct Said(Vec<String>);

impl Said {
    async fn ask(
        &mut self,
        gate: &Gate,
        by: &str,
        verb: &'static str,
        path: &str,
        body: Value,
    ) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = Request::bare(verb, path, text).by(by).send(gate.address).await;
        self.0.push(format!("{verb} {path}: {:?} {}", answer.headers, answer.text()));
        answer
    }
}

/// Reads all files below a folder.
fn read_files(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_files(&path, into);
        } else if path.is_file() {
            into.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    let base64 = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(secret)
    };
    let is_in = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    // The start of the secret may be unaligned in a longer base64 text, but not its middle.
    is_in(secret) || is_in(&base64[..base64.len() - 4])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_sent_to_its_server_and_shown_nowhere() {
    let server = Upstream::http(modern(&["t"])).await;
    let angry = Upstream::http(|_| Say::Status(401, Vec::new(), json!({}))).await;
    let gate = Gate::start(config()).await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let mut said = Said::default();

    let body = |name: &str, address: String, secret: &str| {
        json!({"name": name, "serverUrl": format!("http://{address}/mcp"),
            "authMethod": "bearer_token", "credentials": secret})
    };
    let custom = "/api/mcp-integrations/custom";
    let mut works = body("Works", server.address.to_string(), FIRST);
    let made = said.ask(&gate, &admin, "POST", custom, works.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let fails = body("Fails", angry.address.to_string(), FIRST);
    let made = said.ask(&gate, &admin, "POST", custom, fails).await;
    assert_eq!(made.status, 201, "{}", made.text());
    // Rejected requests of each kind.
    said.ask(&gate, &admin, "POST", custom, works.clone()).await;
    said.ask(&gate, &user, "POST", custom, works.clone()).await;
    works["unknown"] = FIRST.into();
    said.ask(&gate, &admin, "POST", custom, works.clone()).await;
    works["credentials"] = json!({"nested": FIRST});
    said.ask(&gate, &admin, "POST", custom, works.clone()).await;
    works["serverUrl"] = format!("ftp://{FIRST}@example.com").into();
    said.ask(&gate, &admin, "POST", custom, works).await;
    said.ask(&gate, &admin, "POST", custom, FIRST.into()).await;

    until("the server has seen the credential", async || {
        let heard = server.heard();
        let sent = heard
            .iter()
            .any(|heard| heard.header("authorization") == Some(format!("Bearer {FIRST}").as_str()));
        sent.then_some(())
    })
    .await;
    let path = format!("/api/mcp-integrations/{id}");
    let changed = said.ask(&gate, &admin, "PATCH", &path, json!({"credentials": SECOND})).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    for verb in ["disable", "enable", "reconnect"] {
        said.ask(&gate, &admin, "POST", &format!("{path}/{verb}"), Value::Null).await;
    }
    let call = json!({"name": "works__t", "arguments": {}});
    let called = Request::modern("/mcp", "tools/call", call).by(&user).send(gate.address).await;
    said.0.push(called.text());
    until("the new credential is used", async || {
        let heard = server.heard();
        let sent = heard.iter().any(|heard| {
            heard.header("authorization") == Some(format!("Bearer {SECOND}").as_str())
        });
        sent.then_some(())
    })
    .await;
    for by in [&admin, &user, &operator] {
        for path in [
            "/api/mcp-integrations",
            path.as_str(),
            "/api/mcp-integrations?organizationId=acme",
            "/api/servers",
            "/api/tools",
            "/api/agents",
            "/api/organisations",
            "/api/openapi.json",
            "/metrics",
            "/readyz",
        ] {
            said.ask(&gate, by, "GET", path, Value::Null).await;
        }
    }
    let backup = command()
        .args(["store", "backup", "copy.db"])
        .env("LOCKGATE_CONFIG", gate.folder.path().join("lockgate.json"))
        .current_dir(gate.folder.path())
        .output()
        .unwrap();
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    for secret in [FIRST, SECOND] {
        for text in &said.0 {
            assert!(!holds(text.as_bytes(), secret), "{text}");
        }
        let mut files = Vec::new();
        read_files(gate.folder.path(), &mut files);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        for wanted in ["log", "audit.jsonl", "lockgate.db", "copy.db"] {
            assert!(names.iter().any(|name| name.ends_with(wanted)), "{wanted}: {names:?}");
        }
        for (name, bytes) in &files {
            assert!(!holds(bytes, secret), "{secret} is in {name}");
        }
    }
}

/// Runs SQL on the gateway's database, like an attacker with write access to its file.
fn run_sql(folder: &Path, sql: &str) {
    let file = folder.join(".lockgate").join("lockgate.db");
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=10); \
        c.executescript(sys.argv[2]); c.close()";
    let mut python = std::process::Command::new("python3");
    let output = python.args(["-c", script]).arg(&file).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_were_swapped_in_the_database_are_refused_and_on_the_record() {
    let one = Upstream::http(modern(&["t"])).await;
    let two = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(config()).await;
    let at = gate.address;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let mut ids = Vec::new();
    for (name, server, secret) in [("one", &one, FIRST), ("two", &two, SECOND)] {
        let body = json!({"name": name, "serverUrl": format!("http://{}/mcp", server.address),
            "authMethod": "bearer_token", "credentials": secret});
        let made = Request::bare("POST", "/api/mcp-integrations/custom", body.to_string());
        let made = made.by(&admin).send(at).await;
        assert_eq!(made.status, 201, "{}", made.text());
        ids.push(made.json()["id"].as_str().unwrap().to_owned());
    }
    run_sql(
        gate.folder.path(),
        "BEGIN IMMEDIATE;
        CREATE TEMP TABLE was AS SELECT id, sealed FROM integrations;
        UPDATE integrations SET version = version + 1,
            sealed = (SELECT was.sealed FROM was WHERE was.id <> integrations.id);
        UPDATE clock SET revision = revision + 1;
        UPDATE organisations SET revision = (SELECT revision FROM clock);
        COMMIT;",
    );
    let trail = gate.folder.path().join("audit.jsonl");
    let text = until("both are on the record", async || {
        let text = std::fs::read_to_string(&trail).unwrap_or_default();
        (text.matches("\"reason\":\"credentials\"").count() == 2).then_some(text)
    })
    .await;
    for id in &ids {
        assert!(text.contains(id.as_str()), "{id}: {text}");
        let path = format!("/api/mcp-integrations/{id}/reconnect");
        let refused = Request::bare("POST", &path, "").by(&admin).send(at).await;
        assert_eq!(refused.json()["code"], "CREDENTIALS_UNUSABLE", "{}", refused.text());
    }
    assert!(!text.contains(FIRST) && !text.contains(SECOND), "{text}");
}

#[tokio::test]
async fn a_crash_leaves_no_core_file_with_secrets() {
    // Programs inherit the limit, which is often 0 already.
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: maximum, maximum }).unwrap();
    let gate = Gate::start(config()).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gate.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
