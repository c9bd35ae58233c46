//! `lockgate stdio`: a process with both eras on its standard streams, one message per line and no
//! other output.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::rig::client::with_meta;
use crate::rig::gate::{command, config};
use crate::rig::{EVENT_TIMEOUT, Value, alive, children, fixture, json, until};

pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    _folder: tempfile::TempDir,
}

impl Pipe {
    pub(crate) fn start(more: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lockgate.json");
        std::fs::write(&file, config(more).to_string()).unwrap();
        let mut command = tokio::process::Command::from(command());
        command.args(["stdio", "--config"]).arg(&file);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child, _folder: folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// Reads the next line, which must be a JSON message.
    pub(crate) async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(EVENT_TIMEOUT, self.output.next_line())
            .await
            .expect("an answer in time");
        let line = line.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Reads up to the message with this id.
    async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.hear().await;
            if message["id"] == *id {
                return message;
            }
        }
    }

    pub(crate) async fn modern(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": with_meta(params)})
                .to_string(),
        )
        .await;
        self.answer(&id).await
    }

    pub(crate) async fn legacy(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        )
        .await;
        self.answer(&id).await
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// E-24, R-02: both eras in one process; invalid messages have no effect on others.
#[tokio::test]
async fn both_eras_are_spoken_on_one_process() {
    let mut pipe = Pipe::start(json!({"servers": {"f": fixture(&[])}}));
    let found = pipe.modern(json!(1), "server/discover", json!({})).await;
    assert!(
        found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{found}"
    );
    let call = json!({"name": "f__test_simple_text", "arguments": {}});
    let new = pipe.modern(json!("a"), "tools/call", call.clone()).await;
    assert_eq!(new["result"]["resultType"], "complete", "{new}");
    pipe.say(INITIALIZE).await;
    let welcome = pipe.answer(&json!("i")).await;
    assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18", "{welcome}");
    pipe.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let old = pipe.legacy(json!(2), "tools/call", call.clone()).await;
    assert!(
        old["result"]["content"].is_array() && old["result"].get("resultType").is_none(),
        "{old}"
    );
    assert_eq!(
        pipe.modern(json!(3), "tools/call", call.clone()).await["result"]["resultType"],
        "complete"
    );
    for garbage in ["", "   ", "hello", "{", "[]", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#]
    {
        pipe.say(garbage).await;
    }
    pipe.input.as_mut().unwrap().write_all(b"\xff\xfe\n").await.unwrap();
    assert_eq!(pipe.legacy(json!(4), "ping", json!({})).await["result"], json!({}));
    let unknown = pipe.modern(json!(5), "no/such", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    // Concurrent calls: each gets one response with its own id.
    for id in 100..150 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": with_meta(call.clone())});
        pipe.say(&call.to_string()).await;
    }
    let mut ids = Vec::new();
    while ids.len() < 50 {
        let message = pipe.hear().await;
        ids.extend(message["id"].as_i64().filter(|id| *id >= 100));
    }
    ids.sort_unstable();
    assert_eq!(ids, (100..150).collect::<Vec<_>>());
}

/// The end of input ends the process and its servers, after responses to earlier requests.
#[tokio::test]
async fn the_end_of_input_ends_everything() {
    let mut pipe = Pipe::start(json!({"servers": {"f": fixture(&[])}}));
    assert!(pipe.modern(json!(1), "server/discover", json!({})).await["result"].is_object());
    let pid = pipe.child.id().unwrap();
    let servers = children(pid);
    assert_eq!(servers.len(), 1);
    let call = json!({"name": "f__test_tool_with_progress", "arguments": {}});
    pipe.say(
        &json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": with_meta(call)})
            .to_string(),
    )
    .await;
    drop(pipe.input.take());
    assert!(pipe.answer(&json!(9)).await["result"].is_object());
    let exit =
        tokio::time::timeout(EVENT_TIMEOUT, pipe.child.wait()).await.expect("it ends").unwrap();
    assert_eq!(exit.code(), Some(0));
    until("its server has ended", async || (!alive(servers[0])).then_some(())).await;
    let mut rest = String::new();
    pipe.output.into_inner().read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
}

/// A cancelled legacy call gets no response; the same call afterwards does.
#[tokio::test]
async fn a_cancelled_legacy_call_is_met_with_silence() {
    let mut pipe = Pipe::start(json!({"servers": {"f": fixture(&[])}}));
    pipe.say(INITIALIZE).await;
    pipe.answer(&json!("i")).await;
    pipe.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let call = json!({"name": "f__test_tool_with_progress", "arguments": {}});
    for id in [7, 9] {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        pipe.say(&call.to_string()).await;
        if id == 7 {
            pipe.say(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
            )
            .await;
        }
    }
    loop {
        let message = pipe.hear().await;
        assert_ne!(message["id"], 7, "{message}");
        if message["id"] == 9 {
            assert!(message["result"].is_object(), "{message}");
            break;
        }
    }
}

/// A listen over stdio receives changes until it is cancelled; a modern call is cancelled by a
/// notification.
#[tokio::test]
async fn a_listen_on_stdio_can_be_cancelled() {
    let mut pipe = Pipe::start(json!({"servers": {"f": fixture(&[])}}));
    assert!(pipe.modern(json!(1), "server/discover", json!({})).await["result"].is_object());
    let listen = with_meta(json!({"notifications": {"toolsListChanged": true}}));
    pipe.say(
        &json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": listen})
            .to_string(),
    )
    .await;
    assert_eq!(pipe.hear().await["method"], "notifications/subscriptions/acknowledged");
    let call = json!({"name": "f__test_trigger_tool_change", "arguments": {}});
    pipe.say(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": with_meta(call)})
            .to_string(),
    )
    .await;
    let (mut answered, mut told) = (false, false);
    while !(answered && told) {
        let message = pipe.hear().await;
        answered |= message["id"] == 2;
        told |= message["method"] == "notifications/tools/list_changed"
            && message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "l";
    }
    let cancel = with_meta(json!({"requestId": "l"}));
    pipe.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
            .to_string(),
    )
    .await;
    assert!(pipe.modern(json!(3), "tools/list", json!({})).await["result"].is_object());
}

/// With a single client there is one process per server: a legacy server gets the client's
/// capabilities and can ask it, in either era of the client.
#[tokio::test]
async fn the_only_client_is_asked_by_one_process() {
    let servers = json!({"f": fixture(&["--era", "legacy", "--shy"])});
    let ann = json!({"action": "accept", "content": {"username": "Ann", "email": "a@b.c"}});
    let call = json!({"name": "f__test_elicitation", "arguments": {"message": "Who?"}});
    let mut legacy = Pipe::start(json!({"servers": servers}));
    let able = INITIALIZE.replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#);
    legacy.say(&able).await;
    legacy.answer(&json!("i")).await;
    legacy.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let listed = legacy.legacy(json!(1), "tools/list", json!({})).await.to_string();
    assert!(listed.contains("f__test_elicitation"), "{listed}");
    let request = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    legacy.say(&request.to_string()).await;
    let question = loop {
        let message = legacy.hear().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["message"], "[f] Who?");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": ann});
    legacy.say(&answer.to_string()).await;
    let done = legacy.answer(&json!(2)).await.to_string();
    assert!(done.contains("Ann"), "{done}");
    assert_eq!(fixtures_of(&legacy), 1);

    let mut modern = Pipe::start(json!({"servers": servers}));
    let able = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let with = |more: Value| {
        let mut params = call.clone();
        params["_meta"] = able.clone();
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    };
    let asked = modern.modern(json!(1), "tools/call", with(json!({}))).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = &asked["requestState"];
    let answered = json!({"requestState": state, "inputResponses": {"q1": ann}});
    let done = modern.modern(json!(2), "tools/call", with(answered)).await.to_string();
    assert!(done.contains("Ann"), "{done}");
    assert_eq!(fixtures_of(&modern), 1);
}

/// Returns the number of server processes, each of which has a guard as its parent.
fn fixtures_of(pipe: &Pipe) -> usize {
    children(pipe.pid()).len()
}
