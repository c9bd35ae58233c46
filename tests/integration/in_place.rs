//! Server settings that change while calls run are applied in place. If a server must be replaced
//! or is removed, its calls complete first, and new calls use the new server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::{HeardMessage, Say, legacy, modern};
use crate::rig::{Gate, Stream, Upstream, Value, alive, json, until};

/// Returns a server with a tool `slow` that responds once released.
fn held(
    is_old: bool,
    tools: &[&str],
    go: &Arc<AtomicBool>,
) -> impl Fn(&HeardMessage) -> Say + use<> {
    let (new, old, go) = (modern(tools), legacy("2025-06-18", tools), Arc::clone(go));
    move |heard| {
        if heard.body["params"]["name"] == "slow" {
            // Lets the other tasks of this thread run.
            tokio::task::block_in_place(|| wait_for(&go));
        }
        if is_old { old(heard) } else { new(heard) }
    }
}

/// Waits for the release, with a limit so that a failed test ends.
fn wait_for(go: &AtomicBool) {
    for _ in 0..4000 {
        if go.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn reloaded(gate: &Gate, times: usize) {
    until("the file is read", async || {
        (gate.log().matches("configuration reloaded").count() >= times).then_some(())
    })
    .await;
}

fn starts(server: &Upstream) -> usize {
    server.count("initialize") + server.count("server/discover")
}

/// Counts the messages until the stream is quiet.
async fn count_told(stream: &mut Stream) -> usize {
    let mut told = 0;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(700), stream.next()).await {
        told += 1;
    }
    told
}

/// Changes that do not affect the connection leave calls, sessions, processes and lists untouched,
/// and apply to the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn settings_are_taken_over_while_calls_run() {
    for (is_old, is_child) in [(false, false), (true, false), (false, true), (true, true)] {
        let go = Arc::new(AtomicBool::new(false));
        let script = held(is_old, &["slow", "t"], &go);
        let server =
            if is_child { Upstream::lines(script).await } else { Upstream::http(script).await };
        let with = |more: Value| json!({"servers": {"a": server.with(more)}});
        let gate = Gate::start(with(json!({"timeout": 60}))).await;
        let session = gate.session("/mcp", "2025-11-25").await;
        assert_eq!(session.call("a__t").await.code(), 0);
        let mut stream = session.listen().await;
        let before = (gate.children(), starts(&server));
        let changed = async {
            let calls = async || (server.count("tools/call") >= 2).then_some(());
            until("a call runs", calls).await;
            gate.configure(with(json!({
                "timeout": 50, "tool_timeouts": {"t": 40}, "start_timeout": 20, "stall_timeout": 40,
                "concurrency": 3, "queue": 5, "breaker": {"failures": 7, "cooldown": 3},
            })));
            reloaded(&gate, 1).await;
            go.store(true, Ordering::SeqCst);
        };
        let (one, two, ()) = tokio::join!(gate.call("a__slow"), session.call("a__slow"), changed);
        assert_eq!((one.code(), two.code()), (0, 0), "{} {}", one.text(), two.text());
        assert_eq!((gate.children(), starts(&server)), before, "{is_old} {is_child}");
        assert_eq!(count_told(&mut stream).await, 0, "no list has changed");
        go.store(false, Ordering::SeqCst);
        gate.configure(with(json!({"timeout": 1})));
        reloaded(&gate, 2).await;
        let late = session.call("a__slow").await;
        assert!(late.text().contains("within 1 s"), "{}", late.text());
        go.store(true, Ordering::SeqCst);
        until("the server is free", async || {
            (session.call("a__t").await.code() == 0).then_some(())
        })
        .await;
        assert_eq!((gate.children(), starts(&server)), before, "{is_old} {is_child}");
    }
}

/// A changed concurrency limit applies to queued calls too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_gets_a_place_that_was_added() {
    let go = Arc::new(AtomicBool::new(false));
    let server = Upstream::http(held(false, &["slow", "t"], &go)).await;
    let with = |places: u32| json!({"servers": {"a": server.with(json!({"concurrency": places}))}});
    let gate = Gate::start(with(1)).await;
    let changed = async {
        until("a call runs", async || (server.count("tools/call") == 1).then_some(())).await;
        gate.configure(with(4));
        until("the other one runs", async || (server.count("tools/call") == 2).then_some(())).await;
        go.store(true, Ordering::SeqCst);
    };
    let (one, two, ()) = tokio::join!(gate.call("a__slow"), gate.call("a__slow"), changed);
    assert_eq!((one.code(), two.code()), (0, 0));
}

/// A server moves to another address: no call fails, new calls use the new address, and a changed
/// list is announced once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_end_where_they_began_when_the_address_changes() {
    let go = Arc::new(AtomicBool::new(false));
    let one = Upstream::http(held(false, &["slow", "t"], &go)).await;
    let two = Upstream::http(modern(&["slow", "t"])).await;
    let three = Upstream::http(modern(&["slow", "t", "more"])).await;
    let at = |server: &Upstream| json!({"servers": {"a": server.config()}});
    let gate = Gate::start(at(&one)).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let mut stream = session.listen().await;
    let moved = async {
        until("the call runs", async || (one.count("tools/call") == 1).then_some(())).await;
        gate.configure(at(&two));
        until("calls go there", async || {
            assert_eq!((gate.call("a__t").await.code(), session.call("a__t").await.code()), (0, 0));
            (two.count("tools/call") >= 2).then_some(())
        })
        .await;
        go.store(true, Ordering::SeqCst);
    };
    let (slow, ()) = tokio::join!(session.call("a__slow"), moved);
    assert_eq!(slow.code(), 0, "{}", slow.text());
    assert_eq!(count_told(&mut stream).await, 0, "it has the same tools");
    gate.configure(at(&three));
    until("it is listed", async || {
        gate.tools("/mcp").await.0.contains(&"a__more".to_owned()).then_some(())
    })
    .await;
    assert_eq!(count_told(&mut stream).await, 1);
}

/// A process with changed arguments starts while the old one completes its calls; a removed process
/// ends after its last call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_ends_behind_its_last_call() {
    for is_removed in [false, true] {
        let go = Arc::new(AtomicBool::new(false));
        let server = Upstream::lines(held(true, &["slow", "t"], &go)).await;
        let other = Upstream::http(modern(&["u"])).await;
        let with = |more: Value| json!({"servers": {"a": server.with(more), "b": other.config()}});
        let gate = Gate::start(with(json!({}))).await;
        let session = gate.session("/mcp", "2025-11-25").await;
        let pids = gate.children();
        assert_eq!(pids.len(), 1);
        let changed = async {
            until("the call runs", async || (server.count("tools/call") == 1).then_some(())).await;
            if is_removed {
                gate.configure(json!({"servers": {"b": other.config()}}))
            } else {
                gate.configure(with(json!({"env": {"X": "1"}})))
            }
            reloaded(&gate, 1).await;
            if is_removed {
                until("it is gone", async || {
                    (!gate.tools("/mcp").await.0.contains(&"a__t".to_owned())).then_some(())
                })
                .await;
            } else {
                until("the new one answers", async || {
                    (gate.call("a__t").await.code() == 0 && gate.children().len() == 2)
                        .then_some(())
                })
                .await;
            }
            assert!(alive(pids[0]));
            go.store(true, Ordering::SeqCst);
        };
        let (slow, ()) = tokio::join!(session.call("a__slow"), changed);
        assert_eq!(slow.code(), 0, "{}", slow.text());
        until("the old one is gone", async || (!alive(pids[0])).then_some(())).await;
        assert_eq!(gate.children().len(), usize::from(!is_removed));
    }
}

/// An integration that is changed or deleted completes its calls too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_an_integration_end_before_it_does() {
    for is_old in [false, true] {
        let go = Arc::new(AtomicBool::new(false));
        let server = Upstream::http(held(is_old, &["slow", "t"], &go)).await;
        let gate = Gate::start(json!({
            "auth": {"keys_file": "keys.yaml"},
            "store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]},
        }))
        .await;
        let admin = key(&gate, "acme", &["--role", "admin", "--organisation", "acme"]).await;
        let ask = async |verb: &'static str, path: &str, body: String| {
            let request = Request::bare(verb, &format!("/api/mcp-integrations{path}"), body);
            request.by(&admin).send(gate.address).await
        };
        let url = format!("http://{}/mcp", server.address);
        let made = json!({"name": "Own", "serverUrl": url, "authMethod": "bearer_token",
            "credentials": "the-first-credential"});
        let made = ask("POST", "/custom", made.to_string()).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/{}", made.json()["id"].as_str().unwrap());
        let params = |tool: &str| json!({"name": format!("own__{tool}"), "arguments": {}});
        let call = async |tool: &str| {
            let request = Request::modern("/mcp", "tools/call", params(tool));
            request.by(&admin).send(gate.address).await
        };
        let first = until("the integration works", async || {
            let answer = call("t").await;
            (answer.code() == 0).then_some(server.count("tools/call"))
        })
        .await;
        let changed = async {
            let begun = async || (server.count("tools/call") > first).then_some(());
            until("a call runs", begun).await;
            let other = json!({"credentials": "the-second-credential"}).to_string();
            let patched = ask("PATCH", &path, other).await;
            assert_eq!(patched.status, 200, "{}", patched.text());
            until("new calls go with the new credential", async || {
                let answer = call("t").await;
                let heard = server.heard_of("tools/call");
                let last = heard.last()?.header("authorization")?.to_owned();
                (answer.code() == 0 && last.ends_with("the-second-credential")).then_some(())
            })
            .await;
            assert_eq!(ask("DELETE", &path, String::new()).await.status, 204);
            until("new calls find nothing", async || (call("t").await.code() != 0).then_some(()))
                .await;
            go.store(true, Ordering::SeqCst);
        };
        let (slow, ()) = tokio::join!(call("slow"), changed);
        assert_eq!(slow.code(), 0, "{is_old}: {}", slow.text());
    }
}
