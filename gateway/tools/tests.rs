//! Tests of `tools`.

use lockgate_protocol::jsonrpc::{self, From, Message, Outcome, Request};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_upstream::{Call, Caller, ListKind};
use serde_json::{Value, json};

use super::*;

fn all() -> Vec<Arc<dyn Upstream>> {
    let about =
        About { name: "gate".into(), version: "1.2.3".into(), started: Instant::now(), servers: Arc::new(Vec::new) };
    servers(&Config { system: true, example: true }, about)
}

fn request(method: Method, params: &Value) -> Request {
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": method.as_str(), "params": params}).to_string();
    let Ok(Message::Request(request)) = jsonrpc::parse(text.into(), 64, From::Client) else { panic!("not a request") };
    request
}

async fn call(slug: &str, method: Method, target: &str, params: Value) -> Result<Value, String> {
    let server = all().into_iter().find(|s| s.slug() == slug).unwrap();
    let request = request(method, &params);
    let caller =
        Caller { capabilities: "{}".into(), interactive: false, log_level: None, session: None, era: Era::Modern };
    let call = Call {
        method,
        target,
        request: &request,
        replaced: &[],
        caller: &caller,
        conversation: None,
        trace: None,
        timeout: None,
    };
    let answer = server.call(call).await.unwrap();
    match answer.outcome {
        Outcome::Result(span, _) => Ok(serde_json::from_slice(span.of(&answer.text)).unwrap()),
        Outcome::Error(error) => Err(format!("{} {}", error.code, error.message(&answer.text))),
    }
}

#[tokio::test]
async fn tools_answer_with_text_and_structure() {
    let echo =
        call("example", Method::ToolsCall, "echo", json!({"arguments": {"text": "hi \"there\""}})).await.unwrap();
    assert_eq!(echo["structuredContent"], json!({"text": "hi \"there\""}));
    let sum = call("example", Method::ToolsCall, "add", json!({"arguments": {"a": 1, "b": 2.5}})).await.unwrap();
    assert_eq!(sum["structuredContent"], json!({"sum": 3.5}));
    let counted =
        call("example", Method::ToolsCall, "count", json!({"arguments": {"n": 2, "pause_ms": 0}})).await.unwrap();
    assert_eq!(counted["structuredContent"], json!({"counted": 2}));
    let info = call("system", Method::ToolsCall, "info", json!({})).await.unwrap();
    assert_eq!(info["structuredContent"]["version"], "1.2.3");
    assert!(
        call("system", Method::ToolsCall, "servers", json!({})).await.unwrap()["structuredContent"]["servers"]
            .is_array()
    );
}

#[tokio::test]
async fn a_mistake_in_the_arguments_is_a_result_that_says_how_to_mend_it() {
    for (tool, arguments, words) in [
        ("echo", json!({}), "the argument `text` is missing"),
        ("echo", json!({"text": 7}), "`text` must be a string, received 7"),
        ("echo", json!({"text": "", "more": 1}), "unknown argument `more`: this tool takes text"),
        ("echo", json!({"text": "x".repeat(10_001)}), "`text` must have at most 10000 bytes, received 10001"),
        ("add", json!({"a": "1", "b": 2}), "`a` must be a number, received \"1\""),
        ("count", json!({"n": 21}), "`n` must be a whole number from 1 to 20, received 21"),
    ] {
        let result = call("example", Method::ToolsCall, tool, json!({"arguments": arguments})).await.unwrap();
        assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!(words)));
    }
}

#[tokio::test]
async fn prompts_resources_and_completions_are_served() {
    let greeting = call("example", Method::PromptsGet, "greet", json!({"arguments": {"name": "Ada"}})).await.unwrap();
    assert!(greeting["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"));
    let note = call("example", Method::ResourcesRead, "example://note/bob", json!({})).await.unwrap();
    assert_eq!(note["contents"][0]["text"], "A note about bob.\n");
    let values =
        call("example", Method::Complete, "greet", json!({"argument": {"name": "name", "value": "a"}})).await.unwrap();
    assert_eq!(values["completion"]["values"], json!(["Ada", "Alan"]));
    assert!(
        call("example", Method::ResourcesRead, "example://note/", json!({})).await.unwrap_err().starts_with("-32602")
    );
    assert!(call("example", Method::PromptsGet, "nobody", json!({})).await.unwrap_err().starts_with("-32602"));
    assert!(call("system", Method::ToolsCall, "nothing", json!({})).await.unwrap_err().starts_with("-32602"));
}

#[test]
fn every_listed_item_is_complete() {
    for server in all() {
        let catalog = server.catalog();
        for tool in catalog.items(ListKind::Tools) {
            let tool: Value = serde_json::from_slice(&tool.text).unwrap();
            for key in ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] {
                assert!(tool.get(key).is_some(), "{} has no {key}", tool["name"]);
            }
        }
    }
}
