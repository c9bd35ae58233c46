//! Changes that a legacy server makes to one session's lists apply only to that session's client:
//! listed and callable there, unknown to others, subject to the same policies, and gone with the
//! connection.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::rig::client::{Request, Stream};
use crate::rig::gate::{command, program};
use crate::rig::{Gate, Session, Value, fixture, json, signal, until};

const SECRET: &str = "f__test_secret";
const UNKNOWN: i64 = -32602;

/// The fixture over one transport: its entry under `servers`, and its process.
struct Server(Value, Option<Child>);

impl Server {
    async fn start(transport: &str) -> Self {
        if transport == "stdio" {
            return Self(fixture(&["--era", "legacy", "--stateful"]), None);
        }
        let mut command = Command::new(program("fixture-server"));
        command.args([&format!("--{transport}"), "127.0.0.1:0", "--era", "legacy", "--stateful"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
            line
        });
        let line = line.await.unwrap();
        let url = line.trim().strip_prefix("listening ").expect("an address");
        let kind = if transport == "sse" { "sse" } else { "http" };
        Self(json!({"url": url, "transport": kind}), Some(child))
    }

    async fn gate(&self, more: Value) -> Gate {
        let mut config = json!({"servers": {"f": self.0}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Gate::start(config).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.1 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client with elicitation, which has separate upstream connections.
enum Client<'a> {
    Legacy(Session<'a>),
    /// Modern, with these capabilities.
    Modern(&'a Gate, Value),
}

impl<'a> Client<'a> {
    async fn open(gate: &'a Gate, era: &str) -> Self {
        let capabilities = json!({"elicitation": {"form": {}}});
        match era {
            "legacy" => Self::Legacy(gate.session_with("/mcp", "2025-11-25", capabilities).await),
            _ => Self::Modern(gate, capabilities),
        }
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let answer = match self {
            Self::Legacy(session) => session.ask(method, params).await,
            Self::Modern(gate, declared) => {
                gate.modern("/mcp", method, declare(params, declared)).await
            }
        };
        answer.json()
    }

    async fn call(&self, tool: &str) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": {}})).await
    }

    async fn names(&self, kind: &str) -> Vec<String> {
        let listed = self.ask(&format!("{kind}/list"), json!({})).await;
        let items = listed["result"][kind].as_array().unwrap_or_else(|| panic!("{listed}")).iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Signs in or out. The effect is immediate if the server announces it on the response stream,
    /// and otherwise delayed.
    async fn sign(&self, transport: &str, way: &str) {
        assert!(self.call(&format!("f__test_sign_{way}")).await["result"].is_object());
        if transport == "http" {
            until("the announcement arrives", async || {
                (self.lists("test_secret").await == (way == "in")).then_some(())
            })
            .await;
        }
    }

    async fn lists(&self, tool: &str) -> bool {
        self.names("tools").await.contains(&format!("f__{tool}"))
    }

    /// Opens the stream for changes.
    async fn listen(&self) -> Stream {
        match self {
            Self::Legacy(session) => session.listen().await,
            Self::Modern(gate, declared) => {
                let filter = json!({"notifications": {"toolsListChanged": true}});
                let request =
                    Request::modern("/mcp", "subscriptions/listen", declare(filter, declared));
                let mut stream = request.open(gate.address).await;
                stream.next().await.expect("an acknowledgement");
                stream
            }
        }
    }

    async fn must_not_know_the_secret(&self) {
        assert!(!self.lists("test_secret").await);
        assert!(self.lists("test_sign_in").await);
        assert_eq!(self.call(SECRET).await["error"]["code"], UNKNOWN);
    }
}

fn declare(mut params: Value, declared: &Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": declared});
    params
}

async fn hear_of_tools(stream: &mut Stream) {
    until("the client is told of its tools", async || {
        let told = stream.next().await.expect("a notification");
        (told["method"] == "notifications/tools/list_changed").then_some(())
    })
    .await;
}

async fn a_session_changes_its_lists(transport: &str, era: &str) {
    let server = Server::start(transport).await;
    let gate = server.gate(json!({})).await;
    let client = Client::open(&gate, era).await;
    let others = [
        Client::Legacy(gate.session("/mcp", "2025-06-18").await),
        Client::open(&gate, "legacy").await,
        Client::Modern(&gate, json!({})),
        Client::Modern(&gate, json!({"sampling": {}})),
    ];
    let mut stream = client.listen().await;
    client.must_not_know_the_secret().await;
    client.sign(transport, "in").await;
    assert_eq!(client.call(SECRET).await["result"]["content"][0]["text"], "The secret");
    assert!(client.lists("test_secret").await && !client.lists("test_sign_in").await);
    until("its prompt is there", async || {
        client.names("prompts").await.contains(&"f__test_secret_prompt".to_owned()).then_some(())
    })
    .await;
    hear_of_tools(&mut stream).await;
    for other in &others {
        other.must_not_know_the_secret().await;
        assert!(!other.names("prompts").await.contains(&"f__test_secret_prompt".to_owned()));
    }
    // The secrets of two clients are independent.
    others[1].sign(transport, "in").await;
    assert!(others[1].lists("test_secret").await);
    client.sign(transport, "out").await;
    client.must_not_know_the_secret().await;
    hear_of_tools(&mut stream).await;
    assert_eq!(others[1].call(SECRET).await["result"]["content"][0]["text"], "The secret");
    others[2].must_not_know_the_secret().await;
}

#[tokio::test]
async fn a_tool_of_one_session_is_its_clients_alone_over_stdio() {
    a_session_changes_its_lists("stdio", "legacy").await;
    a_session_changes_its_lists("stdio", "modern").await;
}

#[tokio::test]
async fn a_tool_of_one_session_is_its_clients_alone_over_http() {
    a_session_changes_its_lists("http", "legacy").await;
    a_session_changes_its_lists("http", "modern").await;
}

#[tokio::test]
async fn a_tool_of_one_session_is_its_clients_alone_over_sse() {
    a_session_changes_its_lists("sse", "legacy").await;
    a_session_changes_its_lists("sse", "modern").await;
}

/// A policy applies to the tools of a single session too.
#[tokio::test]
async fn what_policy_hides_of_one_session_does_not_exist() {
    let server = Server::start("stdio").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let rules = json!({"policies": [
        {"name": "open", "effect": "allow", "what": {"tools": ["*"]}},
        {"name": "closed", "effect": "deny", "what": {"tools": ["f/test_secret"]}},
    ]});
    std::fs::write(&file, rules.to_string()).unwrap();
    let gate = server.gate(json!({"policy": {"files": [file]}})).await;
    for era in ["legacy", "modern"] {
        let client = Client::open(&gate, era).await;
        let mut stream = client.listen().await;
        let before = client.call(SECRET).await["error"].clone();
        assert!(client.call("f__test_sign_in").await["result"].is_object());
        hear_of_tools(&mut stream).await;
        assert!(client.lists("test_sign_out").await && !client.lists("test_secret").await);
        assert_eq!(client.call(SECRET).await["error"], before, "as before it was there");
    }
}

/// A tool that is not in the lock file is quarantined, even if only one session has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_of_one_session_that_nobody_approved_is_quarantined() {
    let server = Server::start("stdio").await;
    let pins = tempfile::tempdir().unwrap();
    let gate = server.gate(json!({"pins": {"file": pins.path().join("pins.json")}})).await;
    let approve = ["pins", "approve", "--all", "--config", "lockgate.json"];
    let approved = command().args(approve).current_dir(gate.folder.path()).output().unwrap();
    assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
    let client = Client::open(&gate, "legacy").await;
    until("the rest is approved", async || client.lists("test_sign_in").await.then_some(())).await;
    let mut stream = client.listen().await;
    assert!(client.call("f__test_sign_in").await["result"].is_object());
    hear_of_tools(&mut stream).await;
    assert!(!client.lists("test_secret").await && !client.lists("test_sign_in").await);
    assert_eq!(client.call(SECRET).await["error"]["code"], UNKNOWN);
    assert!(gate.log().contains("tool quarantined"));
}

/// The tool disappears with its connection, and the client is notified.
#[tokio::test]
async fn a_tool_of_one_session_ends_with_its_connection() {
    let server = Server::start("stdio").await;
    let gate = server.gate(json!({})).await;
    for era in ["legacy", "modern"] {
        let client = Client::open(&gate, era).await;
        let shared = gate.children();
        let mut stream = client.listen().await;
        assert!(client.call("f__test_sign_in").await["result"].is_object());
        assert!(client.lists("test_secret").await);
        hear_of_tools(&mut stream).await;
        for pid in gate.children().into_iter().filter(|pid| !shared.contains(pid)) {
            signal(pid, rustix::process::Signal::KILL);
        }
        hear_of_tools(&mut stream).await;
        client.must_not_know_the_secret().await;
    }
}

/// An idle modern client loses its session's additions.
#[tokio::test]
async fn a_tool_of_a_modern_client_that_is_idle_goes() {
    let server = Server::start("http").await;
    let gate = server.gate(json!({"limits": {"session_idle": 10}})).await;
    let client = Client::open(&gate, "modern").await;
    client.sign("http", "in").await;
    assert!(client.lists("test_secret").await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    until("it is gone", async || (!client.lists("test_secret").await).then_some(())).await;
    client.must_not_know_the_secret().await;
}
