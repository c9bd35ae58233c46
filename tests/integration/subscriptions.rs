//! Resource subscriptions: on the connection of the client's calls, restored after its loss, and
//! throttled (B1, 3.14).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::upstream::tool;
use crate::rig::{Gate, HeardMessage, Say, Stream, Upstream, Value, json, until};

const NOTE: &str = "test://note";

fn on(heard: &HeardMessage) -> String {
    heard.header("mcp-session-id").unwrap_or_default().to_owned()
}

/// Returns a legacy server with subscriptions per session, like SDK servers. `touch` notifies the
/// calling session this many times that the note has changed.
pub(crate) fn keeping() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let sessions = Arc::new(AtomicUsize::new(0));
    move |heard| match (heard.verb.as_str(), heard.method()) {
        ("POST", "initialize") => {
            let id = format!("s{}", sessions.fetch_add(1, Ordering::SeqCst));
            let welcome = json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "keeping", "version": "1"},
                "capabilities": {"tools": {}, "resources": {"subscribe": true}},
            });
            Say::Status(200, vec![("mcp-session-id", id)], heard.result(welcome))
        }
        ("POST", "tools/list") => Say::Json(heard.result(json!({"tools": [tool("touch")]}))),
        ("POST", "resources/list") => {
            Say::Json(heard.result(json!({"resources": [{"uri": NOTE, "name": "note"}]})))
        }
        ("POST", "resources/templates/list") => {
            Say::Json(heard.result(json!({"resourceTemplates": []})))
        }
        ("POST", "resources/subscribe" | "resources/unsubscribe" | "ping") => {
            Say::Json(heard.result(json!({})))
        }
        ("POST", "tools/call") => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": NOTE}});
            let times = heard.body["params"]["arguments"]["times"].as_u64().unwrap_or(1);
            let mut events: Vec<Value> = (0..times).map(|_| note.clone()).collect();
            events.push(heard.result(json!({"content": [{"type": "text", "text": on(heard)}]})));
            Say::Sse(events.iter().map(|event| format!("data: {event}\n\n")).collect())
        }
        ("POST", method) if method.starts_with("notifications/") => Say::Json(Value::Null),
        ("GET", _) => Say::Stream(": here\n\n".into()),
        ("DELETE", _) => Say::Status(204, Vec::new(), Value::Null),
        _ => Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
    }
}

pub(crate) async fn is_silent(stream: &mut Stream) -> bool {
    tokio::time::timeout(Duration::from_millis(400), stream.next()).await.is_err()
}

pub(crate) fn updated(message: &Value) -> (&str, &str) {
    let uri = message["params"]["uri"].as_str().unwrap_or_default();
    (message["method"].as_str().unwrap_or_default(), uri)
}

pub(crate) const UPDATED: (&str, &str) = ("notifications/resources/updated", "a+test://note");

/// A server with subscriptions per session notifies the subscribed session: the subscription uses
/// the connection of the calls, and its notifications are for that session only.
#[tokio::test]
async fn a_subscription_stands_where_the_calls_of_its_session_go() {
    let server = Upstream::verbs(keeping()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let able = json!({"elicitation": {}});
    let one = gate.session_with("/mcp", "2025-11-25", able.clone()).await;
    let two = gate.session_with("/mcp", "2025-06-18", able).await;
    let plain = gate.session("/mcp", "2025-11-25").await;
    let uri = json!({"uri": "a+test://note"});
    let mut streams = Vec::new();
    for session in [&one, &two, &plain] {
        streams.push(session.listen().await);
        let subscribed = session.ask("resources/subscribe", uri.clone()).await;
        assert_eq!(subscribed.code(), 0, "{}", subscribed.text());
    }
    let [first, second, third] = streams.as_mut_slice() else { panic!() };
    let wanted = json!({"notifications": {"resourceSubscriptions": ["a+test://note"]}});
    let mut modern =
        Request::modern("/mcp", "subscriptions/listen", wanted).open(gate.address).await;
    modern.next().await.unwrap();
    let calls = one.call("a__touch").await.result()["content"][0]["text"].clone();
    let heard: Vec<String> = server.heard_of("resources/subscribe").iter().map(on).collect();
    assert_eq!(heard.len(), 3, "those that share a connection share a subscription: {heard:?}");
    assert!(calls == heard[0].as_str() && heard[0] != heard[1] && heard[1] != heard[2]);
    assert_eq!(updated(&first.next().await.unwrap()), UPDATED);
    assert!(is_silent(second).await && is_silent(third).await && is_silent(&mut modern).await);
    // Notifications on the shared connection are for the clients that share it.
    assert_eq!(gate.call("a__touch").await.code(), 0);
    assert_eq!(updated(&third.next().await.unwrap()), UPDATED);
    assert_eq!(updated(&modern.next().await.unwrap()), UPDATED);
    assert!(is_silent(first).await && is_silent(second).await);
    // The subscription is cancelled only on the connection that holds it.
    assert_eq!(two.ask("resources/unsubscribe", uri).await.code(), 0);
    let back = until("the server is told", async || server.heard_of("resources/unsubscribe").pop());
    assert_eq!(on(&back.await), heard[1]);
    assert_eq!(server.count("resources/unsubscribe"), 1);
}

/// The same for a modern client with elicitation: its stream alone carries the notifications from
/// the connection of its calls, for resources and lists.
#[tokio::test]
async fn a_listen_hears_what_is_told_where_the_calls_of_its_client_go() {
    let kept = keeping();
    let server = Upstream::verbs(move |heard| match (heard.method(), kept(heard)) {
        ("tools/call", Say::Sse(events)) => {
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            Say::Sse(format!("data: {changed}\n\n{events}"))
        }
        (_, said) => said,
    })
    .await;
    let servers = json!({"a": server.config()});
    let gate = Gate::start(json!({"servers": servers, "auth": {"keys_file": "keys.yaml"}})).await;
    let ann = format!("Bearer {}", create_key(&gate, "ann").await);
    let bob = format!("Bearer {}", create_key(&gate, "bob").await);
    let able = json!({"elicitation": {"form": {}}});
    let meta =
        |capabilities: &Value| json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let open = async |key: &str, capabilities: Value| {
        let wanted = json!({"resourceSubscriptions": ["a+test://note"], "toolsListChanged": true});
        let params = json!({"notifications": wanted, "_meta": meta(&capabilities)});
        let request = Request::modern("/mcp", "subscriptions/listen", params);
        let mut stream = request.with("Authorization", key).open(gate.address).await;
        let granted = stream.next().await.unwrap()["params"]["notifications"].clone();
        assert_eq!(granted, wanted);
        stream
    };
    let mut mine = open(&ann, able.clone()).await;
    let mut others = [
        open(&ann, json!({"roots": {}})).await,
        open(&ann, json!({})).await,
        open(&bob, able.clone()).await,
    ];
    let call = json!({"name": "a__touch", "arguments": {}, "_meta": meta(&able)});
    let request = Request::modern("/mcp", "tools/call", call).with("Authorization", &ann);
    let called = request.send(gate.address).await.result()["content"][0]["text"].clone();
    let heard: Vec<String> = server.heard_of("resources/subscribe").iter().map(on).collect();
    assert_eq!((heard.len(), &called), (4, &json!(heard[0])), "{heard:?}");
    let mut told = Vec::new();
    for _ in 0..2 {
        told.push(mine.next().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    told.sort();
    assert_eq!(told, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    for stream in &mut others {
        assert!(is_silent(stream).await);
    }
    drop(mine);
    let back = until("the server is told", async || server.heard_of("resources/unsubscribe").pop());
    assert_eq!(on(&back.await), heard[0]);
}

/// A disconnecting client does not cancel its subscription: the request continues, and a repeated
/// request waits for the server's result.
#[tokio::test]
async fn a_subscription_counts_when_its_server_has_confirmed_it() {
    let kept = keeping();
    let asked = AtomicUsize::new(0);
    let server = Upstream::verbs(move |heard| match heard.method() {
        "resources/subscribe" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Say::Late(Duration::from_millis(800), heard.error(-32603, "not now"))
        }
        "resources/subscribe" => Say::Late(Duration::from_millis(800), heard.result(json!({}))),
        _ => kept(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session("/mcp", "2025-11-25").await;
    let uri = json!({"uri": "a+test://note"});
    for (times, code) in [(1, -32603), (2, 0)] {
        let request = Request::legacy("/mcp", &one.id, 3, "resources/subscribe", &uri);
        let address = gate.address;
        let first = tokio::spawn(async move { request.send(address).await });
        until("the server is asked", async || {
            (server.count("resources/subscribe") == times).then_some(())
        })
        .await;
        first.abort();
        assert!(first.await.is_err(), "the client has left");
        // The gateway detects the disconnect before the next request arrives, or soon after.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let again = one.ask("resources/subscribe", uri.clone()).await;
        assert_eq!(again.code(), code, "{}", again.text());
        assert_eq!(server.count("resources/subscribe"), times, "it was not asked twice");
    }
    assert_eq!(one.ask("resources/subscribe", uri).await.code(), 0);
    assert_eq!(server.count("resources/subscribe"), 2);
    let mut stream = one.listen().await;
    assert_eq!(one.call("a__touch").await.code(), 0);
    assert_eq!(updated(&stream.next().await.unwrap()), UPDATED);
}

/// A session's lost connection is reopened with its subscriptions, and the client is notified of
/// possibly missed changes.
#[tokio::test]
async fn subscriptions_of_a_session_outlive_its_connection() {
    let mut server = Upstream::verbs({
        let kept = keeping();
        let known = std::sync::Mutex::new(Vec::new());
        move |heard| {
            let session = on(heard);
            if heard.method() == "test/forget" {
                known.lock().unwrap().clear();
                return Say::Json(Value::Null);
            }
            if session.is_empty() {
                let said = kept(heard);
                if let Say::Status(200, headers, _) = &said {
                    known.lock().unwrap().push(headers[0].1.clone());
                }
                return said;
            }
            if known.lock().unwrap().contains(&session) {
                kept(heard)
            } else {
                Say::Status(404, Vec::new(), heard.error(-32001, "no such session"))
            }
        }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = one.listen().await;
    let subscribed = one.ask("resources/subscribe", json!({"uri": "a+test://note"})).await;
    assert_eq!(subscribed.code(), 0, "{}", subscribed.text());
    let forget = json!({"jsonrpc": "2.0", "method": "test/forget"}).to_string();
    assert_eq!(Request::bare("POST", "/mcp", forget).send(server.address).await.status, 202);
    server.stop().await;
    server.restart().await;
    let told = loop {
        let message = stream.next().await.unwrap();
        if !message["method"].as_str().unwrap().ends_with("list_changed") {
            break message;
        }
    };
    assert_eq!(updated(&told), UPDATED, "what may have been missed is told");
    let heard: Vec<String> = server.heard_of("resources/subscribe").iter().map(on).collect();
    assert!(heard.len() == 2 && heard[0] != heard[1], "{heard:?}");
    // The connection is again that of the calls.
    let calls = one.call("a__touch").await.result()["content"][0]["text"].clone();
    assert_eq!(calls, heard[1].as_str());
    let told = loop {
        let message = stream.next().await.unwrap();
        if !message["method"].as_str().unwrap().ends_with("list_changed") {
            break message;
        }
    };
    assert_eq!(updated(&told), UPDATED);
}

/// A burst is notified at its start and its end, in both eras.
#[tokio::test]
async fn a_burst_of_updates_is_told_in_steps() {
    let server = Upstream::verbs(keeping()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session("/mcp", "2025-11-25").await;
    let mut legacy = one.listen().await;
    let subscribed = one.ask("resources/subscribe", json!({"uri": "a+test://note"})).await;
    assert_eq!(subscribed.code(), 0, "{}", subscribed.text());
    let wanted = json!({"notifications": {"resourceSubscriptions": ["a+test://note"]}});
    let mut modern =
        Request::modern("/mcp", "subscriptions/listen", wanted).open(gate.address).await;
    modern.next().await.unwrap();
    let touch = json!({"name": "a__touch", "arguments": {"times": 200}});
    assert_eq!(gate.modern("/mcp", "tools/call", touch).await.code(), 0);
    for stream in [&mut legacy, &mut modern] {
        assert_eq!(updated(&stream.next().await.unwrap()), UPDATED);
        assert_eq!(updated(&stream.next().await.unwrap()), UPDATED);
        assert!(is_silent(stream).await, "the rest is told in these");
    }
}

/// B3: readable resources can be subscribed to, listed or not; missing and hidden resources are
/// indistinguishable, without a subscription at the server.
#[tokio::test]
async fn what_can_be_read_can_be_subscribed_to() {
    let kept = keeping();
    let server = Upstream::verbs(move |heard| match heard.method() {
        "resources/read" if heard.body["params"]["uri"] == "test://unlisted" => {
            let contents = json!([{"uri": "test://unlisted", "text": "words"}]);
            Say::Json(heard.result(json!({"contents": contents})))
        }
        "resources/read" => Say::Json(heard.error(-32002, "no such resource")),
        _ => kept(heard),
    })
    .await;
    let policy = json!({"resources": {"deny": ["a+test://hidden"]}});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "policy": policy})).await;
    let one = gate.session("/mcp", "2025-11-25").await;
    let subscribe = async |uri: &str| one.ask("resources/subscribe", json!({"uri": uri})).await;
    let there = subscribe("a+test://unlisted").await;
    assert_eq!(there.code(), 0, "{}", there.text());
    let (missing, hidden) =
        (subscribe("a+test://missing").await, subscribe("a+test://hidden").await);
    assert_eq!((missing.code(), hidden.code()), (-32002, -32002), "{}", missing.text());
    assert_eq!(missing.text().replace("missing", "hidden"), hidden.text());
    let all = ["unlisted", "missing", "hidden"].map(|name| format!("a+test://{name}"));
    let wanted = json!({"notifications": {"resourceSubscriptions": all}});
    let mut modern =
        Request::modern("/mcp", "subscriptions/listen", wanted).open(gate.address).await;
    let granted = modern.next().await.unwrap()["params"]["notifications"].clone();
    assert_eq!(granted, json!({"resourceSubscriptions": ["a+test://unlisted"]}));
    let asked: Vec<Value> = ["resources/subscribe", "resources/read"]
        .into_iter()
        .flat_map(|method| server.heard_of(method))
        .map(|heard| heard.body["params"]["uri"].clone())
        .collect();
    assert!(!asked.contains(&json!("test://hidden")), "{asked:?}");
    assert_eq!(server.count("resources/subscribe"), 1);
}

/// Without a policy that hides resources, the server decides about subscriptions, even to resources
/// that cannot be read yet.
#[tokio::test]
async fn a_resource_that_cannot_be_read_yet_can_be_subscribed_to() {
    let kept = keeping();
    let server = Upstream::verbs(move |heard| {
        let is_there = heard.body["params"]["uri"] == "test://later";
        match heard.method() {
            "resources/read" => Say::Json(heard.error(-32002, "no such resource")),
            "resources/subscribe" if !is_there => {
                Say::Json(heard.error(-32002, "no such resource"))
            }
            _ => kept(heard),
        }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session("/mcp", "2025-11-25").await;
    let subscribe = async |uri: &str| one.ask("resources/subscribe", json!({"uri": uri})).await;
    let later = subscribe("a+test://later").await;
    assert_eq!(later.code(), 0, "{}", later.text());
    assert_eq!(subscribe("a+test://never").await.code(), -32002);
    let wanted = ["later", "never"].map(|name| format!("a+test://{name}"));
    let wanted = json!({"notifications": {"resourceSubscriptions": wanted}});
    let mut modern =
        Request::modern("/mcp", "subscriptions/listen", wanted).open(gate.address).await;
    let granted = modern.next().await.unwrap()["params"]["notifications"].clone();
    assert_eq!(granted, json!({"resourceSubscriptions": ["a+test://later"]}));
    assert_eq!(server.count("resources/read"), 0);
}

/// B6: an announced list change is relayed once even if the list is unchanged: to all clients of
/// the server's list, or only to the notified session.
#[tokio::test]
async fn an_announced_change_is_told_though_the_list_reads_the_same() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let kept = keeping();
    let server = Upstream::verbs(move |heard| match heard.method() {
        "tools/call" => {
            let done = heard.result(json!({"content": []}));
            Say::Sse(format!("data: {changed}\n\ndata: {changed}\n\ndata: {done}\n\n"))
        }
        _ => kept(heard),
    })
    .await;
    let other = Upstream::http(crate::rig::upstream::modern(&["o"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config(), "b": other.config()}})).await;
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let plain = gate.session("/mcp", "2025-11-25").await;
    let mut own = able.listen().await;
    let mut shared = plain.listen().await;
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let open = |path: &str| Request::modern(path, "subscriptions/listen", filter.clone());
    let mut modern = open("/mcp").open(gate.address).await;
    let mut elsewhere = open("/servers/b/mcp").open(gate.address).await;
    modern.next().await.unwrap();
    elsewhere.next().await.unwrap();
    let told = async |stream: &mut Stream| stream.next().await.unwrap()["method"].clone();
    assert_eq!(plain.call("a__touch").await.code(), 0);
    for stream in [&mut own, &mut shared, &mut modern] {
        assert_eq!(told(stream).await, "notifications/tools/list_changed");
    }
    assert_eq!(able.call("a__touch").await.code(), 0);
    assert_eq!(told(&mut own).await, "notifications/tools/list_changed");
    for stream in [&mut own, &mut shared, &mut modern, &mut elsewhere] {
        assert!(is_silent(stream).await, "that is all");
    }
}
