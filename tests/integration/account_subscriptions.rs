//! Subscriptions to resources and tasks at a server with accounts of users: each is made with the account of
//! its caller, its updates are for this caller alone, and it outlasts a change of the account.

use std::sync::Arc;
use std::time::Duration;

use crate::accounts::{User, World};
use crate::rig::authority::Authority;
use crate::rig::client::Request;
use crate::rig::upstream::tool;
use crate::rig::{HeardMessage, Say, Stream, Upstream, Value, json, until};
use crate::subscriptions::{UPDATED, is_silent, keeping, updated};

/// Starts a gateway for a server whose lists need no account, and whose other requests do.
async fn start(top: Value) -> World {
    let authority = Authority::start().await;
    let (kept, guard) = (keeping(), authority.clone());
    let script = move |heard: &HeardMessage| match heard.method() {
        "tools/list" => Say::Json(heard.result(json!({"tools": [tool("t")]}))),
        "tools/call" | "resources/subscribe" if guard.subject_of(heard).is_none() => {
            guard.challenge(401, &[])
        }
        "resources/subscribe"
            if guard.subject_of(heard).is_some_and(|(name, _)| name == "slow") =>
        {
            Say::Late(Duration::from_secs(2), heard.result(json!({})))
        }
        _ if heard.header("accept") == Some("application/json") => Say::Json(guard.resource()),
        _ => kept(heard),
    };
    let server = Arc::new(Upstream::verbs(script).await);
    authority.protect(&format!("http://{}/mcp", server.address));
    World::start_for(authority, server, top).await
}

/// Opens a stream, and returns the granted subscriptions.
async fn listen(user: &User<'_>) -> (Stream, Value) {
    let wanted = json!({"notifications": {"resourceSubscriptions": ["a+test://note"]}});
    let key = format!("Bearer {}", user.key.as_deref().unwrap());
    let request = Request::modern("/mcp", "subscriptions/listen", wanted);
    let mut stream = request.with("Authorization", &key).open(user.world.at()).await;
    let granted = stream.next().await.unwrap()["params"]["notifications"].clone();
    (stream, granted["resourceSubscriptions"].clone())
}

/// Returns the account of each subscription at the server.
fn subscribers(world: &World) -> Vec<String> {
    let heard = world.server.heard_of("resources/subscribe");
    let named = heard.iter().filter_map(|heard| world.authority.subject_of(heard));
    named.map(|(subject, _)| subject).collect()
}

#[tokio::test]
async fn a_subscription_is_of_its_callers_account() {
    let world = start(json!({"auth": {"keys_file": "keys.yaml"}})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    assert_eq!(listen(&anna).await.1, Value::Null);
    assert_eq!(world.server.count("resources/subscribe"), 0);
    anna.connect("anna").await;
    ben.connect("ben").await;
    let (mut to_anna, granted) = listen(&anna).await;
    assert_eq!(granted, json!(["a+test://note"]));
    let (mut to_ben, _) = listen(&ben).await;
    assert_eq!(subscribers(&world), ["anna", "ben"]);
    // `t` notifies the connection of its call that the note has changed.
    anna.call("a__t").await;
    assert_eq!(updated(&to_anna.next().await.unwrap()), UPDATED);
    ben.call("a__t").await;
    assert_eq!(updated(&to_ben.next().await.unwrap()), UPDATED);
    assert!(is_silent(&mut to_anna).await && is_silent(&mut to_ben).await);
    // The next read of a disconnected caller returns a link.
    let ended = Request::bare("DELETE", "/api/connections/a", "")
        .with("Authorization", &format!("Bearer {}", anna.key.as_deref().unwrap()));
    assert_eq!(ended.send(world.at()).await.status, 204);
    assert_eq!(updated(&to_anna.next().await.unwrap()), UPDATED);
    // Which must not report an update, because that would be read as well.
    anna.prompt().await;
    assert!(is_silent(&mut to_anna).await);
    // Another account of the caller has the subscription.
    anna.connect("anna2").await;
    assert_eq!(updated(&to_anna.next().await.unwrap()), UPDATED);
    assert_eq!(subscribers(&world), ["ben", "anna2"]);
    anna.call("a__t").await;
    assert_eq!(updated(&to_anna.next().await.unwrap()), UPDATED);
    assert!(is_silent(&mut to_ben).await);
    drop(to_anna);
    let told = async || (world.server.count("resources/unsubscribe") == 1).then_some(());
    until("the server is told", told).await;
    let ended = &world.server.heard_of("resources/unsubscribe")[0];
    assert_eq!(world.authority.subject_of(ended).unwrap().0, "anna2");
    world.assert_no_canary(&[]);
}

#[tokio::test]
async fn a_session_subscribes_with_its_callers_account() {
    let world = start(json!({})).await;
    let mut anna = User::local(&world);
    let session = world.gate.session("/mcp", "2025-11-25").await;
    let mut stream = session.listen().await;
    let uri = json!({"uri": "a+test://note"});
    let refused = session.ask("resources/subscribe", uri.clone()).await;
    assert_eq!(refused.code(), -31004, "{}", refused.text());
    let link = &refused.json()["error"]["data"]["connect"]["url"];
    assert!(link.as_str().unwrap().contains("/connect/a?link="), "{}", refused.text());
    anna.connect("anna").await;
    assert_eq!(session.ask("resources/subscribe", uri.clone()).await.code(), 0);
    assert_eq!(subscribers(&world), ["anna"]);
    session.call("a__t").await;
    assert_eq!(updated(&stream.next().await.unwrap()), UPDATED);
    assert_eq!(session.ask("resources/unsubscribe", uri).await.code(), 0);
    let told = async || (world.server.count("resources/unsubscribe") == 1).then_some(());
    until("the server is told", told).await;
}

#[tokio::test]
async fn a_subscription_outlasts_an_account_connected_in_between() {
    let world = start(json!({"auth": {"keys_file": "keys.yaml"}})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let prompt = anna.prompt().await;
    let link = prompt["url"].as_str().unwrap();
    let mut redirects = Vec::new();
    for name in ["slow", "anna"] {
        let (url, cookie) = anna.start(link).await;
        redirects.push((world.authority.approve(&url, name), cookie));
    }
    let connect = async |at: usize| {
        let (query, cookie) = &redirects[at];
        assert_eq!(anna.come_back(query, cookie).await.status, 200);
    };
    connect(0).await;
    // The server has not yet confirmed the subscription of the former account.
    let replace = async {
        until("it is subscribing", async || (subscribers(&world) == ["slow"]).then_some(())).await;
        connect(1).await;
    };
    let ((mut stream, granted), ()) = tokio::join!(listen(&anna), replace);
    assert_eq!(granted, json!(["a+test://note"]));
    assert_eq!(subscribers(&world), ["slow", "anna"]);
    anna.call("a__t").await;
    assert_eq!(updated(&stream.next().await.unwrap()), UPDATED);
}

#[tokio::test]
async fn a_task_is_followed_with_its_callers_account() {
    let authority = Authority::start().await;
    let (tasks, guard) = (crate::tasks::server(), authority.clone());
    let script = move |heard: &HeardMessage| match heard.method() {
        "tools/call" | "tasks/get" if guard.subject_of(heard).is_none() => {
            guard.challenge(401, &[])
        }
        _ if heard.header("accept") == Some("application/json") => Say::Json(guard.resource()),
        _ => tasks(heard),
    };
    let server = Arc::new(Upstream::verbs(script).await);
    authority.protect(&format!("http://{}/mcp", server.address));
    let world =
        World::start_for(authority, server, json!({"auth": {"keys_file": "keys.yaml"}})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    let ask = |user: &User<'_>, method: &str, mut params: Value| {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
        let key = format!("Bearer {}", user.key.as_deref().unwrap());
        Request::modern("/mcp", method, params).with("Authorization", &key)
    };
    for (user, name) in [(&mut anna, "anna"), (&mut ben, "ben")] {
        let prompt = user.call("a__plain").await.result()["_meta"].clone();
        let link = prompt["io.github.lockgate/connect"]["url"].as_str().unwrap().to_owned();
        let (url, cookie) = user.start(&link).await;
        let query = world.authority.approve(&url, name);
        assert_eq!(user.come_back(&query, &cookie).await.status, 200);
    }
    let mut streams = Vec::new();
    // `plain` notifies the connection of its call that `own-2-slow` has changed.
    for (user, tool) in [(&ben, "a__must"), (&anna, "a__slow")] {
        let call = ask(user, "tools/call", json!({"name": tool, "arguments": {}}));
        let id = call.send(world.at()).await.result()["taskId"].clone();
        let wanted = json!({"notifications": {"taskIds": [id]}});
        let listen = ask(user, "subscriptions/listen", wanted);
        let mut stream = listen.open(world.at()).await;
        let granted = stream.next().await.unwrap()["params"]["notifications"].clone();
        assert_eq!(granted, json!({"taskIds": [id]}));
        streams.push((stream, id));
    }
    let [(to_ben, _), (to_anna, id)] = streams.as_mut_slice() else { panic!() };
    anna.call("a__plain").await.result();
    let told = to_anna.next().await.unwrap();
    assert_eq!((&told["method"], &told["params"]["taskId"]), (&json!("notifications/tasks"), &*id));
    assert!(is_silent(to_ben).await);
    for heard in world.server.heard_of("tasks/get") {
        let is_annas = heard.text.contains("own-2-slow");
        let (subject, _) = world.authority.subject_of(&heard).unwrap();
        assert_eq!(subject, if is_annas { "anna" } else { "ben" }, "{}", heard.text);
    }
    world.assert_no_canary(&[]);
}
