//! The life cycle of an integration with a real server: created, connected, assigned to an agent,
//! listed and called at the agent's endpoint in both eras, reconnected, unassigned and deleted.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::rig::client::Request;
use crate::rig::{Answer, Gate, Value, json, program, until};

/// The fixture server over HTTP, and its URL.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(program("fixture-server"));
        command.args(["--http", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening ").unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn ask(gate: &Gate, verb: &'static str, path: &str, body: Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::bare(verb, &format!("/api{path}"), text);
    // Endpoint URLs are built from the Host of the request.
    request.headers.retain(|(name, _)| name != "Host");
    request.with("Host", &gate.address.to_string()).send(gate.address).await
}

/// Returns the result of a list; null for an endpoint without tools.
async fn list(gate: &Gate, path: &str) -> Value {
    gate.modern(path, "tools/list", json!({})).await.json()["result"].clone()
}

fn has_tools(tools: &Value, prefix: &str) -> bool {
    let mut tools = tools["tools"].as_array().into_iter().flatten();
    tools.any(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with(prefix)))
}

#[tokio::test]
async fn an_integration_goes_from_its_creation_to_an_agent_and_to_its_end() {
    let server = Server::start();
    let gate = Gate::start(json!({})).await;
    let body = json!({"name": "Fixture", "serverUrl": server.url, "validate": true});
    let made = ask(&gate, "POST", "/mcp-integrations/custom", body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let own = format!("/mcp-integrations/{id}");
    let connected = async || {
        let shown = ask(&gate, "GET", &own, Value::Null).await.json();
        (shown["state"] == "connected").then_some(())
    };
    until("it is connected", connected).await;
    let agent = ask(&gate, "POST", "/agents", json!({"name": "Mine"})).await.json();
    let address = format!("http://{}", gate.address);
    let endpoint = agent["endpoint"].as_str().unwrap().strip_prefix(&address).expect("a URL");
    let assigned = format!("/agents/{}/mcp-integrations/{id}", agent["id"].as_str().unwrap());
    assert!(!has_tools(&list(&gate, endpoint).await, "fixture"), "nothing is assigned");
    let given = ask(&gate, "POST", &assigned, Value::Null).await;
    let shown = given.json();
    assert_eq!((given.status, &shown["endpoint"]), (200, &agent["endpoint"]), "{shown}");
    assert_eq!((&shown["id"], &shown["agentId"]), (&agent["id"], &agent["id"]), "{shown}");
    assert_eq!(shown["integration"]["id"], id, "{shown}");
    let listed = async || {
        let tools = list(&gate, endpoint).await;
        has_tools(&tools, "fixture__").then_some(tools)
    };
    until("it is listed at the agent's endpoint", listed).await;
    let call = json!({"name": "fixture__test_simple_text", "arguments": {}});
    let modern = gate.modern(endpoint, "tools/call", call.clone()).await.result();
    let session = gate.session(endpoint, "2025-11-25").await;
    assert!(has_tools(&session.ask("tools/list", json!({})).await.result(), "fixture__"));
    let legacy = session.ask("tools/call", call.clone()).await.result();
    assert_eq!(modern["content"], legacy["content"]);
    let anew = ask(&gate, "POST", &format!("{own}/reconnect"), Value::Null).await;
    assert_eq!(anew.status, 200, "{}", anew.text());
    let again = async || {
        let answer = gate.modern(endpoint, "tools/call", call.clone()).await;
        (answer.json()["result"]["content"] == modern["content"]).then_some(())
    };
    until("it answers after it was connected anew", again).await;
    assert_eq!(ask(&gate, "DELETE", &assigned, Value::Null).await.status, 204);
    let unassigned = async || (!has_tools(&list(&gate, endpoint).await, "fixture")).then_some(());
    until("the agent does not have it any more", unassigned).await;
    let hidden = gate.modern(endpoint, "tools/call", call.clone()).await;
    assert!(hidden.json()["error"].is_object(), "{}", hidden.text());
    until("its organisation has it", async || {
        has_tools(&list(&gate, "/mcp").await, "fixture__").then_some(())
    })
    .await;
    assert_eq!(ask(&gate, "DELETE", &own, Value::Null).await.status, 204);
    let gone = async || (!has_tools(&list(&gate, "/mcp").await, "fixture")).then_some(());
    until("it is gone", gone).await;
    assert_eq!(ask(&gate, "GET", &own, Value::Null).await.status, 404);
}
