//! Every kind of upstream is killed and restarted under load: calls of other servers do not fail or
//! wait, the killed server recovers automatically, and no process remains when the gateway ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};

use crate::rig::{Gate, Say, Upstream, Value, alive, children, fixture, json, signal, until};

/// Calls a tool repeatedly without failures; returns the duration of the slowest call.
async fn load(
    gate: Arc<Gate>,
    tool: &'static str,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Duration {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = gate.call(tool).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{tool}: {}", answer.text());
        slowest = slowest.max(began.elapsed());
        done.fetch_add(1, Ordering::Relaxed);
    }
    slowest
}

/// Child processes and HTTP servers of both eras in turn, three times each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_harms_no_other_and_comes_back() {
    let mut new = Upstream::http(modern(&["t"])).await;
    let mut old = Upstream::http(legacy("2025-06-18", &["t"])).await;
    let steady = Upstream::http(modern(&["ok"])).await;
    let servers = json!({
        "modern": fixture(&["--era", "modern"]), "legacy": fixture(&["--era", "legacy"]), "steady": steady.config(),
        "steadychild": fixture(&[]), "new": new.config(), "old": old.config(),
    });
    let mut gate = Arc::new(Gate::start(json!({"servers": servers})).await);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let loads: Vec<_> = ["steady__ok", "steadychild__test_simple_text"]
        .map(|tool| {
            tokio::spawn(load(Arc::clone(&gate), tool, Arc::clone(&stop), Arc::clone(&done)))
        })
        .into();
    for round in 0..2 {
        for tool in ["modern__test_simple_text", "legacy__test_simple_text"] {
            let slug = tool.split("__").next().unwrap();
            let pid = pid_of(&gate, slug);
            // Running calls of the killed server end, with or without an error, and do not hang.
            let running: Vec<_> = (0..4)
                .map(|_| {
                    let gate = Arc::clone(&gate);
                    tokio::spawn(async move { gate.call(tool).await.status })
                })
                .collect();
            signal(pid, Signal::KILL);
            for call in running {
                assert_eq!(call.await.unwrap(), 200);
            }
            until("the child is back", async || (gate.call(tool).await.code() == 0).then_some(()))
                .await;
            assert!(!alive(pid) && pid_of(&gate, slug) != pid, "round {round}");
        }
        for (server, tool) in [(&mut new, "new__t"), (&mut old, "old__t")] {
            server.stop().await;
            assert_eq!(gate.call(tool).await.code(), -32603);
            server.restart().await;
            until("the HTTP server is back", async || {
                (gate.call(tool).await.code() == 0).then_some(())
            })
            .await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        let slowest = load.await.unwrap();
        assert!(slowest < Duration::from_secs(1), "a call elsewhere took {slowest:?}");
    }
    assert!(done.load(Ordering::Relaxed) > 50);
    let left = gate.children();
    assert!(left.len() >= 3, "{left:?}");
    gate.terminate();
    let gate = Arc::get_mut(&mut gate).expect("nobody calls any more");
    assert_eq!(gate.ended().await, Some(0));
    until("every process has ended", async || left.iter().all(|&pid| !alive(pid)).then_some(()))
        .await;
}

/// Returns the latest pid that the log reports for a server.
fn pid_of(gate: &Gate, slug: &str) -> u32 {
    let log = gate.log();
    let line = log.lines().rfind(|l| {
        l.contains("child process started") && l.contains(&format!("server=\"{slug}\""))
    });
    let pid = line.and_then(|l| l.split("pid=").nth(1)).and_then(|p| p.split_whitespace().next());
    pid.and_then(|p| p.parse().ok()).expect("a process id in the log")
}

/// Descendants of a server process end with it, even if it ignores signals.
#[tokio::test]
async fn no_process_is_left_behind() {
    let stubborn = "trap '' TERM; sleep 600 & sleep 600 & wait; sleep 600";
    let servers = json!({
        "stubborn": {"command": "bash", "args": ["-c", stubborn]},
        "family": {"command": "bash", "args": ["-c", format!("sleep 600 & exec '{}' --stdio", crate::rig::program("fixture-server").display())]},
    });
    let mut gate =
        Gate::launch(json!({"servers": servers, "limits": {"discovery_deadline": 1}})).await;
    gate.ready().await;
    let family = until("the processes", async || {
        let all: Vec<u32> = gate
            .children()
            .into_iter()
            .flat_map(|pid| [vec![pid], children(pid)].concat())
            .collect();
        (all.len() >= 5).then_some(all)
    })
    .await;
    gate.terminate();
    gate.ended().await;
    until("every process has ended", async || family.iter().all(|&pid| !alive(pid)).then_some(()))
        .await;
}

/// A call running at SIGTERM completes, new connections are refused, and listens end with a result.
#[tokio::test]
async fn a_running_call_is_finished_before_the_end() {
    let server = Upstream::http(|heard| match heard.method() {
        "tools/call" => {
            std::thread::sleep(Duration::from_millis(700));
            heard.text_result("late")
        }
        _ => modern(&["slow"])(heard),
    });
    let server = tokio::task::spawn(server).await.unwrap();
    let mut gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut listen =
        Request::modern("/mcp", "subscriptions/listen", listen).open(gate.address).await;
    assert_eq!(listen.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let session = gate.session("/mcp", "2025-11-25").await;
    let mut stream = session.listen().await;
    let call = Request::modern("/mcp", "tools/call", json!({"name": "a__slow", "arguments": {}}));
    let call = call.open(gate.address);
    let stop = async {
        until("the call runs", async || (server.count("tools/call") == 1).then_some(())).await;
        gate.terminate();
    };
    let (answer, ()) = tokio::join!(call, stop);
    assert_eq!(answer.whole().await.result()["content"][0]["text"], "late");
    // F-20
    let last = listen.next().await.expect("a final result");
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!(1), &json!("complete")),
        "{last}"
    );
    assert!(listen.next().await.is_none() && stream.next().await.is_none());
    let address = gate.address;
    assert_eq!(gate.ended().await, Some(0));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// A failing server is not called during the breaker's cooldown, reports this immediately, and is
/// retried afterwards.
#[tokio::test]
async fn a_failing_server_is_left_alone_for_a_while() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let good = modern(&["t"]);
    let server = Upstream::http(move |heard| match heard.method() {
        "tools/call" if is_broken.load(Ordering::SeqCst) => Say::Close,
        _ => good(heard),
    })
    .await;
    let breaker = json!({"breaker": {"failures": 3, "cooldown": 1}});
    let gate = Gate::start(json!({"servers": {"a": server.with(breaker)}})).await;
    for _ in 0..8 {
        assert_eq!(gate.call("a__t").await.code(), -32603);
    }
    assert_eq!(server.count("tools/call"), 3);
    assert!(gate.call("a__t").await.json()["error"]["data"]["retryAfterMs"].is_u64());
    broken.store(false, Ordering::SeqCst);
    until("it is tried again", async || (gate.call("a__t").await.code() == 0).then_some(())).await;
}

/// F-21: a listen is repeated after a server's restart, over stdio and HTTP, and clients are
/// notified of possibly missed changes.
#[tokio::test]
async fn a_listen_is_sent_again_after_a_restart() {
    use crate::rig::client::Request;
    let said = |http: bool| {
        move |heard: &crate::rig::HeardMessage| {
            let filter = &heard.body["params"]["notifications"];
            let id = &heard.body["id"];
            let tagged = json!({"io.modelcontextprotocol/subscriptionId": id});
            let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": filter, "_meta": tagged}});
            match heard.method() {
                "server/discover" => Say::Json(heard.result(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                    "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
                }))),
                "resources/list" | "resources/templates/list" => {
                    let member = if heard.method() == "resources/list" { "resources" } else { "resourceTemplates" };
                    let mut result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
                    result[member] = json!([]);
                    if member == "resources" {
                        result[member] = json!([{"uri": "test://x", "name": "x"}]);
                    }
                    Say::Json(heard.result(result))
                }
                "subscriptions/listen" if http => Say::Stream(format!("data: {ack}\n\n")),
                "subscriptions/listen" => Say::Json(ack),
                _ => modern(&["t"])(heard),
            }
        }
    };
    for http in [false, true] {
        let mut server = if http {
            Upstream::http(said(true)).await
        } else {
            Upstream::lines(said(false)).await
        };
        let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
        let filter = json!({"notifications": {"resourceSubscriptions": ["a+test://x"]}});
        let mut stream =
            Request::modern("/mcp", "subscriptions/listen", filter).open(gate.address).await;
        let granted = stream.next().await.unwrap();
        assert_eq!(
            granted["params"]["notifications"]["resourceSubscriptions"],
            json!(["a+test://x"]),
            "{granted}"
        );
        let wanted = |server: &Upstream| {
            let heard = server.heard_of("subscriptions/listen");
            heard.iter().filter(|h| h.text.contains("test://x")).count()
        };
        let before = wanted(&server);
        assert!(before >= 1);
        if http {
            // All connections break, including that of the listen, and the server is unavailable
            // for a while.
            server.stop().await;
            assert_eq!(gate.call("a__t").await.code(), -32603);
            server.restart().await;
        }
        for pid in gate.children() {
            signal(pid, Signal::KILL);
        }
        until("the listen is sent again", async || (wanted(&server) > before).then_some(())).await;
        let told = tokio::time::timeout(crate::rig::EVENT_TIMEOUT, stream.next())
            .await
            .expect("what was missed")
            .unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("a+test://x"))
        );
    }
}

/// A session continues after a restart and at a replica with the same secret: only for its owner,
/// not after its end, and not without a secret. The secret can be rotated meanwhile.
#[tokio::test]
async fn a_session_goes_on_where_the_secret_is_the_same() {
    let server = Upstream::http(modern(&["t"])).await;
    let (old, new) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let config = |more: Value| {
        let mut config = json!({"servers": {"a": server.config()}});
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    };
    let first = Gate::start(config(json!({"secret": old}))).await;
    let session = first.session("/mcp", "2025-06-18").await;
    let ended = first.session("/mcp", "2025-06-18").await;
    assert_eq!(session.call("a__t").await.result()["content"][0]["text"], "t");
    let ids = [session.id.clone(), ended.id.clone()];
    let end = |gate: &Gate, id: &str| {
        let request = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", id);
        let address = gate.address;
        async move { request.send(address).await.status }
    };
    assert_eq!(end(&first, &ids[1]).await, 204);
    let call = json!({"name": "a__t", "arguments": {}});
    let ask = |gate: &Gate, path: &str, id: &str| {
        let request = Request::legacy(path, id, 5, "tools/call", &call);
        let address = gate.address;
        async move { request.send(address).await }
    };
    assert_eq!(ask(&first, "/mcp", &ids[1]).await.status, 404, "it was ended");
    // A replica with the next secret, and another without the old secret.
    let second = Gate::start(config(json!({"secret": new, "old_secrets": [old]}))).await;
    let other = Gate::start(config(json!({"secret": new}))).await;
    assert_eq!(ask(&other, "/mcp", &ids[0]).await.status, 404);
    assert_eq!(ask(&second, "/servers/a/mcp", &ids[0]).await.status, 404, "another endpoint");
    let (one, two) = tokio::join!(ask(&second, "/mcp", &ids[0]), ask(&second, "/mcp", &ids[0]));
    for answer in [one, two] {
        assert_eq!(answer.result()["content"][0]["text"], "t");
    }
    // The lists of the replica may differ.
    let mut stream = Request::bare("GET", "/mcp", "")
        .with("Mcp-Session-Id", &ids[0])
        .with("Accept", "text/event-stream")
        .open(second.address)
        .await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(end(&second, &ids[0]).await, 204);
    assert_eq!(ask(&second, "/mcp", &ids[0]).await.status, 404);
    // Without a secret, session ids cannot be resumed elsewhere.
    let lone = Gate::start(config(json!({}))).await;
    assert_eq!(lone.session("/mcp", "2025-06-18").await.id.len(), 32);
    assert_eq!(ask(&lone, "/mcp", &ids[0]).await.status, 404);
    let sealed = other.session("/mcp", "2025-06-18").await.id;
    assert!(sealed.starts_with("lg1.") && !sealed.contains("2025"), "{sealed}");
}

/// An idle child process ends: the next call uses the new process, on the shared connection and on
/// a client's own.
#[tokio::test]
async fn the_call_after_an_idle_end_goes_to_the_new_process() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", "legacy"])}})).await;
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    for _ in 0..3 {
        for answer in
            [gate.call("f__test_simple_text").await, able.call("f__test_simple_text").await]
        {
            assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
        }
        let pids = gate.children();
        assert!(pids.len() >= 2, "one is shared, one the client's own");
        pids.iter().for_each(|&pid| signal(pid, Signal::KILL));
        until("they are gone", async || (!pids.iter().any(|&pid| alive(pid))).then_some(())).await;
    }
    assert_eq!(able.call("f__test_simple_text").await.code(), 0);
}
