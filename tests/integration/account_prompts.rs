//! How callers learn that a call needs their account: a question to open the page, the error of
//! 2025-11-25, or text; and calls that wait for the account (`auth.waits`).

use std::time::Duration;

use crate::accounts::{PUBLIC, User, World};
use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::gate::Session;
use crate::rig::{Answer, Value, json, until};

const OPENS_PAGES: fn() -> Value = || json!({"elicitation": {"form": {}, "url": {}}});

/// Returns a modern call by a client that opens pages.
fn modern(user: &User<'_>, more: &Value) -> Request {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": OPENS_PAGES()});
    let mut params = json!({"name": "a__t", "arguments": {}, "_meta": meta});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let request = Request::modern("/mcp", "tools/call", params);
    match &user.key {
        Some(key) => request.by(key),
        None => request,
    }
}

async fn call(user: &User<'_>, more: Value) -> Answer {
    modern(user, &more).send(user.world.at()).await
}

/// Returns the members of the request that answers a question.
fn answered(asked: &Value, action: &str) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["connect"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    assert_eq!(question["params"]["mode"], "url", "{asked}");
    assert!(question["params"].get("elicitationId").is_none(), "{asked}");
    json!({"requestState": asked["requestState"], "inputResponses": {"connect": {"action": action}}})
}

fn link(params: &Value) -> String {
    let url = params["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("{PUBLIC}/connect/a?link=")), "{url}");
    assert!(params["message"].as_str().unwrap().contains("server a"), "{params}");
    url
}

/// Fails unless the result is the text with the link.
fn assert_plain(result: &Value) {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["_meta"]["io.github.lockgate/connect"]["server"], "a", "{result}");
}

async fn connect_at(user: &mut User<'_>, link: &str, name: &str) {
    let (url, cookie) = user.start(link).await;
    let done = user.come_back(&user.world.authority.approve(&url, name), &cookie).await;
    assert_eq!(done.status, 200, "{}", done.text());
}

#[tokio::test]
async fn a_modern_client_is_asked_to_open_the_page() {
    let world = World::start(true, json!({})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let ben = User::with_key(&world, "ben").await;
    let asked = call(&anna, json!({})).await.result();
    let url = link(&asked["inputRequests"]["connect"]["params"]);
    assert_plain(&call(&anna, answered(&asked, "decline")).await.result());
    // Without `waits`, a client that returns too early is not asked again and again.
    assert_plain(&call(&anna, answered(&asked, "accept")).await.result());
    // The state is of no use to others, and an answer without a state is no answer.
    assert_eq!(call(&ben, answered(&asked, "accept")).await.code(), -32602);
    let stateless = json!({"inputResponses": {"connect": {"action": "accept"}}});
    assert_eq!(call(&anna, stateless).await.result()["resultType"], "input_required");
    connect_at(&mut anna, &url, "anna").await;
    let done = call(&anna, answered(&asked, "accept")).await.result();
    assert_eq!(done["content"][0]["text"], "anna", "{done}");
    // Neither the state nor the answer reached the server.
    let sent = &world.server.heard_of("tools/call")[0].body["params"];
    assert!(sent.get("inputResponses").is_none() && sent.get("requestState").is_none(), "{sent}");
    // Forms alone, which `{}` means, open no pages.
    for modes in [json!({}), json!({"form": {}})] {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": modes}});
        assert_plain(&call(&ben, json!({"_meta": meta})).await.result());
    }
    world.assert_no_canary(&[]);
}

#[tokio::test]
async fn a_call_waits_for_the_account_and_runs_once() {
    let top =
        json!({"auth": {"keys_file": "keys.yaml"}, "limits": {"parked_calls_per_principal": 1}});
    let world = World::start_with(top, json!({"waits": 30})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let asked = call(&anna, json!({})).await.result();
    let url = link(&asked["inputRequests"]["connect"]["params"]);
    let at = world.at();
    let waiting = modern(&anna, &answered(&asked, "accept"));
    let waiting = tokio::spawn(async move { waiting.send(at).await });
    until("the call waits", async || {
        (world.gate.log().matches("has to connect an account").count() >= 2).then_some(())
    })
    .await;
    until("the call counts as parked", async || {
        let refused = call(&anna, answered(&asked, "accept"));
        let refused = tokio::time::timeout(Duration::from_millis(500), refused).await.ok()?;
        refused.text().contains("parked_calls_per_principal").then_some(())
    })
    .await;
    assert!(!waiting.is_finished());
    assert_eq!(world.server.count("tools/call"), 0);
    connect_at(&mut anna, &url, "anna").await;
    let done = waiting.await.unwrap().result();
    assert_eq!(done["content"][0]["text"], "anna", "{done}");
    assert_eq!(world.server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_call_waits_no_longer_than_configured() {
    let world = World::start(false, json!({"waits": 1})).await;
    let user = User::local(&world);
    let asked = call(&user, json!({})).await.result();
    let began = std::time::Instant::now();
    assert_plain(&call(&user, answered(&asked, "accept")).await.result());
    let waited = began.elapsed();
    assert!((1..10).contains(&waited.as_secs()), "{waited:?}");
    // A declined question is not waited for.
    let began = std::time::Instant::now();
    assert_plain(&call(&user, answered(&asked, "cancel")).await.result());
    assert!(began.elapsed() < Duration::from_millis(900));
}

#[tokio::test]
async fn a_legacy_client_gets_the_error_of_its_revision() {
    let world = World::start(false, json!({})).await;
    let user = User::local(&world);
    let session = |version, capabilities| world.gate.session_with("/mcp", version, capabilities);
    let opens = session("2025-11-25", OPENS_PAGES()).await;
    let refused = opens.call("a__t").await;
    assert_eq!(refused.code(), -32042, "{}", refused.text());
    let elicitation = &refused.json()["error"]["data"]["elicitations"][0];
    assert_eq!(elicitation["mode"], "url");
    assert!(elicitation["elicitationId"].as_str().unwrap().len() >= 32);
    let url = link(elicitation);
    for (version, capabilities) in [
        ("2025-11-25", json!({"elicitation": {}})),
        ("2025-11-25", json!({})),
        ("2025-06-18", OPENS_PAGES()),
    ] {
        assert_plain(&session(version, capabilities).await.call("a__t").await.result());
    }
    let mut user = user;
    connect_at(&mut user, &url, "anna").await;
    assert_eq!(opens.call("a__t").await.result()["content"][0]["text"], "anna");
}

#[tokio::test]
async fn a_legacy_client_is_asked_during_a_call_that_waits() {
    let world = World::start(false, json!({"waits": 30})).await;
    let mut user = User::local(&world);
    let session = world.gate.session_with("/mcp", "2025-11-25", OPENS_PAGES()).await;
    let ask = async |session: &Session<'_>| {
        let params = json!({"name": "a__t", "arguments": {}});
        let request = Request::legacy("/mcp", &session.id, 7, "tools/call", &params);
        let mut stream = request.open(world.at()).await;
        let question = stream.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        assert!(question["params"]["elicitationId"].is_string(), "{question}");
        (stream, question)
    };
    let answer = async |question: &Value, action: &str| {
        let result = json!({"action": action});
        let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        let answered = session.post(body.to_string()).send(world.at()).await;
        assert_eq!(answered.status, 202);
    };
    let (mut stream, question) = ask(&session).await;
    answer(&question, "decline").await;
    assert_plain(&stream.next().await.unwrap()["result"]);
    let (mut stream, question) = ask(&session).await;
    answer(&question, "accept").await;
    connect_at(&mut user, &link(&question["params"]), "anna").await;
    let done = stream.next().await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "anna", "{done}");
    assert_eq!(world.server.count("tools/call"), 1);
}
