//! Missing servers: their representation in lists and calls, and the notifications of changes.

use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Stream, Upstream, Value, json, until};

fn degraded(list: &Value) -> Value {
    list["_meta"]["lockgate/degraded"].clone()
}

/// Starts a dead server, a silent server and a healthy server.
async fn three() -> (Upstream, Upstream, Upstream) {
    let mut dead = Upstream::http(modern(&["d"])).await;
    dead.stop().await;
    (dead, Upstream::http(|_| Say::Nothing).await, Upstream::http(modern(&["ok"])).await)
}

/// A call to a server that is down or starting reports the state and whether to retry; hidden tools
/// still get the error of unknown tools.
#[tokio::test]
async fn a_call_to_a_server_that_is_not_there_says_how_it_is() {
    let (dead, silent, good) = three().await;
    let servers = json!({"dead": dead.config(), "silent": silent.config(), "good": good.config()});
    let policy = json!({"tools": {"allow": ["*"], "deny": ["dead__hidden"]}});
    let limits = json!({"discovery_deadline": "1s"});
    let gate = Gate::launch(json!({"servers": servers, "policy": policy, "limits": limits})).await;
    until("the good one is listed", async || {
        gate.tools("/mcp").await.0.contains(&"good__ok".to_owned()).then_some(())
    })
    .await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for (tool, state) in [("dead__d", "failed"), ("silent__x", "pending")] {
        for answer in [gate.call(tool).await, session.call(tool).await] {
            assert_eq!(answer.code(), -32603, "{}", answer.text());
            let error = answer.json()["error"].clone();
            let data = &error["data"];
            let said = (&data["upstream"], &data["state"], &data["retry"]);
            let slug = tool.split("__").next().unwrap();
            assert_eq!(said, (&json!(slug), &json!(state), &json!(true)), "{error}");
            assert!(data["since"].as_str().unwrap().ends_with('Z'), "{error}");
            let words = error["message"].as_str().unwrap();
            assert!(words.contains(state) && words.contains("try again in a moment"), "{words}");
            assert!(!words.contains("127.0.0.1"), "{words}");
        }
    }
    let own = gate.modern("/servers/silent/mcp", "tools/call", json!({"name": "x"})).await;
    assert_eq!(own.json()["error"]["data"]["state"], "pending", "{}", own.text());
    let prompt = gate.modern("/mcp", "prompts/get", json!({"name": "dead__p"})).await;
    assert_eq!(prompt.json()["error"]["data"]["state"], "failed", "{}", prompt.text());
    // Hidden tools, and unknown tools of connected servers, get the usual error.
    for (hidden, unknown) in [("dead__hidden", "nobody__hidden"), ("good__no", "nobody__no")] {
        for (a, b) in [
            (gate.call(hidden).await, gate.call(unknown).await),
            (session.call(hidden).await, session.call(unknown).await),
        ] {
            assert_eq!(a.code(), -32602, "{}", a.text());
            assert_eq!(a.text().replace(hidden, unknown), b.text());
        }
    }
    // Lists report the time and the reason too.
    let missing = degraded(&gate.tools("/mcp").await.1);
    for entry in missing.as_array().unwrap() {
        let since = entry["since"].as_str().unwrap_or_default();
        assert!(since.len() == 20 && entry["reason"].is_string(), "{missing}");
    }
}

async fn changed(stream: &mut Stream) -> Value {
    let message = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
    message.expect("a notification").unwrap()["method"].clone()
}

/// Clients with access to a server are notified of state changes in both eras, others are not;
/// lists then report the state.
#[tokio::test]
async fn a_changed_state_is_told_to_whom_it_concerns() {
    let mut server = Upstream::lines(modern(&["t"])).await;
    let other = Upstream::lines(modern(&["o"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config(), "b": other.config()}})).await;
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let listen = |path: &str| Request::modern(path, "subscriptions/listen", filter.clone());
    let mut concerned = listen("/mcp").open(gate.address).await;
    let mut elsewhere = listen("/servers/b/mcp").open(gate.address).await;
    concerned.next().await.unwrap();
    elsewhere.next().await.unwrap();
    let session = gate.session("/mcp", "2025-11-25").await;
    let mut legacy = session.listen().await;
    server.stop().await;
    for stream in [&mut concerned, &mut legacy] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    let missing = degraded(&gate.tools("/mcp").await.1);
    assert_eq!(missing[0]["server"], "a", "{missing}");
    server.restart().await;
    for stream in [&mut concerned, &mut legacy] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    until("the list is whole", async || {
        degraded(&gate.tools("/mcp").await.1).is_null().then_some(())
    })
    .await;
    let silent = tokio::time::timeout(Duration::from_millis(100), elsewhere.next()).await;
    assert!(silent.is_err(), "{silent:?}");
}

/// Missing credentials for a server are distinguished from a failure, even if only its lists or a
/// client's own connection are rejected.
#[tokio::test]
async fn a_server_that_wants_credentials_says_so_wherever_it_does() {
    let refusal = || Say::Status(401, Vec::new(), json!({"error": "who are you"}));
    let kept = modern(&["t"]);
    let lists = Upstream::http(move |heard: &HeardMessage| match heard.method() {
        "tools/list" => refusal(),
        _ => kept(heard),
    })
    .await;
    let old = legacy("2025-11-25", &["t"]);
    let sessions = Upstream::http(move |heard: &HeardMessage| {
        let declared = &heard.body["params"]["capabilities"]["elicitation"];
        match heard.method() {
            "initialize" if declared.is_object() => refusal(),
            _ => old(heard),
        }
    })
    .await;
    let gate =
        Gate::launch(json!({"servers": {"lists": lists.config(), "sessions": sessions.config()}}))
            .await;
    let missing = until("the state is known", async || {
        let missing = degraded(&gate.tools("/mcp").await.1);
        (missing[0]["state"] == "needs-auth").then_some(missing)
    })
    .await;
    assert_eq!(missing.as_array().unwrap().len(), 1, "{missing}");
    assert!(missing[0]["reason"].as_str().unwrap().contains("requires credentials"), "{missing}");
    let call = gate.call("lists__t").await.json()["error"].clone();
    assert_eq!(
        (&call["data"]["state"], &call["data"]["retry"]),
        (&json!("needs-auth"), &json!(false))
    );
    assert!(call["data"].get("retryAfterMs").is_none(), "{call}");
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let call = able.call("sessions__t").await;
    assert_eq!(call.json()["error"]["data"]["reason"], "needs_auth", "{}", call.text());
    assert_eq!(gate.call("sessions__t").await.code(), 0);
}

/// `admin.ready` selects the criterion, and the number of connected servers is always reported.
#[tokio::test]
async fn readiness_counts_the_servers_that_are_wanted() {
    for (ready, one_there, both_there) in
        [("started", 200, 200), ("any", 200, 200), ("all", 503, 200)]
    {
        let (mut late, good) =
            (Upstream::http(modern(&["l"])).await, Upstream::http(modern(&["ok"])).await);
        late.stop().await;
        let servers = json!({"late": late.config(), "good": good.config()});
        // Built-in servers are in neither count.
        let gate = Gate::launch(json!({"servers": servers, "admin": {"ready": ready},
            "builtin": {"system": true, "example": true}}))
        .await;
        let readyz = async || Request::bare("GET", "/readyz", "").send(gate.address).await;
        until("the one is there and the other was tried", async || {
            let told = readyz().await.json();
            let is_so = told["connected"] == "1 of 2" && told["state"] != "initializing";
            is_so.then_some(())
        })
        .await;
        assert_eq!(readyz().await.status, one_there, "{ready}");
        late.restart().await;
        until("both are there", async || {
            (readyz().await.json()["connected"] == "2 of 2").then_some(())
        })
        .await;
        assert_eq!(readyz().await.json()["servers"], json!({"connected": 2}));
        assert_eq!(readyz().await.status, both_there, "{ready}");
        let waited = gate.log().contains("admin.ready requires more connected servers");
        assert_eq!(waited, ready == "all", "{}", gate.log());
    }
}

/// A failed REST call reports the kind of failure and its server.
#[tokio::test]
async fn a_failed_call_says_of_which_kind_it_is_and_of_which_server() {
    let closed = Upstream::http(|_| Say::Status(401, Vec::new(), json!({"error": "who?"}))).await;
    let silent = Upstream::http(|_| Say::Nothing).await;
    let usual = modern(&["t"]);
    let own = Upstream::http(move |heard: &HeardMessage| match heard.method() {
        "tools/call" => Say::Json(heard.error(-1, "own words")),
        _ => usual(heard),
    })
    .await;
    let servers =
        json!({"closed": closed.config(), "silent": silent.config(), "own": own.config()});
    let limits = json!({"discovery_deadline": "1s"});
    let gate = Gate::launch(json!({"servers": servers, "limits": limits})).await;
    until("the states are known", async || {
        let missing = degraded(&gate.tools("/mcp").await.1).to_string();
        (missing.contains("needs-auth") && !missing.contains("\"own\"")).then_some(())
    })
    .await;
    for (tool, status, code, kind) in [
        ("closed__t", 502, "SERVER_FAILED", "authentication"),
        ("silent__t", 504, "SERVER_FAILED", "timeout"),
        ("own__t", 502, "SERVER_ERROR", "execution"),
    ] {
        let path = format!("/api/tools/{tool}/execute");
        let answer = Request::bare("POST", &path, "{}").send(gate.address).await;
        let problem = answer.json();
        let slug = tool.split("__").next().unwrap();
        assert_eq!((answer.status, &problem["code"]), (status, &json!(code)), "{problem}");
        let named = (&problem["type"], &problem["integrationName"]);
        assert_eq!(named, (&json!(kind), &json!(slug)), "{problem}");
    }
}
