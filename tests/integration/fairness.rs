//! One server or one caller cannot block others: at the defaults, in both eras, with several
//! principals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::principals::key;
use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Answer, Gate, HeardMessage, Say, Stream, Upstream, json, until};

/// Duration of a call to a well-behaved server.
const WORK: Duration = Duration::from_millis(100);

/// Answers calls after [`WORK`].
fn working(heard: &HeardMessage) -> Say {
    let script = modern(&["t"]);
    match (heard.method(), script(heard)) {
        ("tools/call", Say::Json(answer)) => Say::Late(WORK, answer),
        (_, say) => say,
    }
}

/// Returns a script that never answers calls.
fn hanging(script: impl Fn(&HeardMessage) -> Say) -> impl Fn(&HeardMessage) -> Say {
    move |heard| match heard.method() {
        "tools/call" => Say::Nothing,
        _ => script(heard),
    }
}

fn call(tool: &str) -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}}))
}

fn by(request: Request, key: &str) -> Request {
    request.with("Authorization", &format!("Bearer {key}"))
}

/// Makes successful calls in sequence; returns their durations in ascending order.
async fn polite(gate: &Gate, request: &Request, times: usize) -> Vec<Duration> {
    let mut all = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        let answer = request.send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
        all.push(began.elapsed());
    }
    all.sort();
    all
}

/// Returns the 75th percentile: a pause of the machine delays a few calls, an unfair queue most.
fn p75(times: &[Duration]) -> Duration {
    times[times.len() * 3 / 4]
}

fn p99(times: &[Duration]) -> Duration {
    times[times.len() * 99 / 100 - usize::from(times.len() >= 100)]
}

/// Callers that repeat their request after every response, until dropped.
struct Crowd {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    fn start(gate: &Gate, size: usize, request: &Request) -> Self {
        let (stop, answered, refused) =
            (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let mut tasks = JoinSet::new();
        for _ in 0..size {
            let (address, request, stop) = (gate.address, request.clone(), Arc::clone(&stop));
            let (answered, refused): (Arc<AtomicUsize>, Arc<AtomicUsize>) =
                (Arc::clone(&answered), Arc::clone(&refused));
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = request.send(address).await;
                    let answer = answer.json();
                    if answer.get("result").is_some_and(|result| result["isError"] != true) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        // The response asks for a wait of a second; this caller waits less.
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            });
        }
        Self { stop, answered, refused, _tasks: tasks }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn reason(answer: &Answer) -> String {
    answer.json()["error"]["data"]["reason"].as_str().unwrap_or_default().to_owned()
}

/// 120 callers of a hanging server: calls to another server stay fast and are not refused. Callers
/// that queue for the hanging server get an error within seconds, before their call timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_stops_no_other() {
    let (stuck, old) = (
        Upstream::http(hanging(modern(&["t"]))).await,
        Upstream::http(legacy("2025-11-25", &["t"])).await,
    );
    let good = Upstream::http(working).await;
    let servers = json!({"stuck": stuck.config(), "good": good.config(), "old": old.config()});
    let gate = Gate::start(json!({"servers": servers})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let in_session =
        |tool: &str| Request::legacy("/mcp", &session.id, 7, "tools/call", &json!({"name": tool}));
    let alone = polite(&gate, &call("good__t"), 20).await;

    let began = Instant::now();
    let mut callers = JoinSet::new();
    for n in 0..216 {
        let request = if n % 2 == 0 { call("stuck__t") } else { in_session("stuck__t") };
        let address = gate.address;
        callers.spawn(async move { Stream::open(address, &request.bytes()).await.whole().await });
    }
    until("it has all that it may have", async || (stuck.count("tools/call") == 128).then_some(()))
        .await;
    let both = polite(&gate, &call("good__t"), 30).await;
    let mixed = polite(&gate, &in_session("good__t"), 10).await;
    let others = polite(&gate, &call("old__t"), 20).await;
    assert!(p75(&both) <= p75(&alone) * 3, "{both:?} instead of {alone:?}");
    assert!(
        p75(&mixed) <= p75(&alone) * 3 && p75(&others) <= p75(&alone) * 3,
        "{mixed:?} {others:?}"
    );

    eprintln!("p99 alone {:?}, beside the crowd {:?}", p99(&alone), p99(&both));

    // The 88 queued calls fail; the 128 running calls keep their own timeout.
    let mut told = 0;
    while told < 88 {
        let answer = callers.join_next().await.unwrap().unwrap();
        assert_eq!(reason(&answer), "stalled", "{}", answer.text());
        assert!(answer.json()["error"]["data"]["retryAfterMs"].as_u64().unwrap() >= 1000);
        assert!(answer.text().contains("has sent nothing for"), "{}", answer.text());
        told += 1;
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    eprintln!("its queue was given up after {:?}", began.elapsed());
    // New calls do not queue.
    let began = Instant::now();
    assert_eq!(reason(&call("stuck__t").send(gate.address).await), "stalled");
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(callers.len(), 128);
}

/// A caller with 300 busy connections: another caller is as fast as alone at another server, gets
/// its turns at the same server, and is never refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_greedy_caller_takes_no_turn_of_another() {
    let (busy, good) = (Upstream::http(working).await, Upstream::http(working).await);
    let servers = json!({"busy": busy.config(), "good": good.config()});
    let gate = Gate::start(json!({"servers": servers, "auth": {"keys_file": "keys.yaml"}})).await;
    let (greedy, fair) = (key(&gate, "greedy", &[]).await, key(&gate, "fair", &[]).await);
    let alone = polite(&gate, &by(call("good__t"), &fair), 20).await;
    let crowd = Crowd::start(&gate, 300, &by(call("busy__t"), &greedy));
    until("the crowd is there", async || {
        (crowd.refused.load(Ordering::Relaxed) > 100).then_some(())
    })
    .await;
    let beside = polite(&gate, &by(call("good__t"), &fair), 40).await;
    assert!(p75(&beside) <= p75(&alone) * 3, "{beside:?} instead of {alone:?}");
    eprintln!("p99 alone {:?}, at another server {:?}", p99(&alone), p99(&beside));
    let before = crowd.answered.load(Ordering::Relaxed);
    let same = polite(&gate, &by(call("busy__t"), &fair), 20).await;
    assert!(p75(&same) <= p75(&alone) * 6, "{same:?} instead of {alone:?}");
    eprintln!("p99 at the same server {:?}", p99(&same));
    assert!(crowd.answered.load(Ordering::Relaxed) > before, "the others are served as well");
}

/// 16 keys of an organisation fill a server's permits and queue; calls of another organisation are
/// never refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organisation_with_many_keys_locks_no_other_one_out() {
    let busy = Upstream::http(working).await;
    let mut server = busy.config();
    server["concurrency"] = 2.into();
    server["queue"] = 4.into();
    let auth = json!({"keys_file": "keys.yaml"});
    let gate = Gate::start(json!({"servers": {"busy": server}, "auth": auth})).await;
    let mut crowds = Vec::new();
    for name in 0..16 {
        let greedy = key(&gate, &format!("greedy{name}"), &["--organisation", "acme"]).await;
        crowds.push(Crowd::start(&gate, 1, &by(call("busy__t"), &greedy)));
    }
    let fair = key(&gate, "fair", &["--organisation", "other"]).await;
    until("the crowd is there", async || {
        let refused = crowds.iter().filter(|crowd| crowd.refused.load(Ordering::Relaxed) > 0);
        (refused.count() >= 8).then_some(())
    })
    .await;
    polite(&gate, &by(call("busy__t"), &fair), 20).await;
    let refused = || -> usize { crowds.iter().map(|c| c.refused.load(Ordering::Relaxed)).sum() };
    let before = refused();
    until("they still fill it", async || (refused() > before).then_some(())).await;
}

#[tokio::test]
async fn the_metrics_show_who_runs_and_who_waits() {
    let stuck = Upstream::http(hanging(modern(&["t"]))).await;
    let bounds = json!({"concurrency": 2, "timeout": 3});
    let gate = Gate::start(json!({"servers": {"a": stuck.with(bounds)}})).await;
    let metric = async |name: &str| {
        let text = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
        let line = text.lines().find(|line| {
            line.starts_with(&format!("lockgate_{name} "))
                || line.starts_with(&format!("lockgate_{name}{{"))
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert_eq!(
        (metric("requests_in_flight").await, metric("requests_queued").await),
        (Some(0.0), Some(0.0))
    );
    let calls = async { tokio::join!(gate.call("a__t"), gate.call("a__t"), gate.call("a__t")) };
    let look = until("two run and one waits", async || {
        let all = [metric("requests_in_flight").await, metric("requests_queued").await];
        let of_server =
            [metric("server_calls_running").await, metric("server_calls_waiting").await];
        (all == [Some(2.0), Some(1.0)] && of_server == all).then_some(())
    });
    tokio::join!(calls, look);
    assert_eq!(
        (metric("requests_in_flight").await, metric("requests_queued").await),
        (Some(0.0), Some(0.0))
    );
}

/// A legacy call continues without its client until another call needs its permit.
#[tokio::test]
async fn a_call_whose_client_is_gone_leaves_its_place_to_others() {
    let server = Upstream::http(|heard: &HeardMessage| {
        match heard.body["params"]["arguments"]["hang"].as_bool() {
            Some(true) => Say::Nothing,
            _ => modern(&["t"])(heard),
        }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.with(json!({"concurrency": 1}))}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let hang = json!({"name": "a__t", "arguments": {"hang": true}});
    let request = Request::legacy("/mcp", &session.id, 3, "tools/call", &hang);
    let mut socket = tokio::net::TcpStream::connect(gate.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &request.bytes()).await.unwrap();
    until("it runs", async || (server.count("tools/call") == 1).then_some(())).await;
    drop(socket);
    let began = Instant::now();
    assert_eq!(session.call("a__t").await.code(), 0);
    assert_eq!(gate.call("a__t").await.code(), 0);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// A slow server that responds is not stalled, however long its queue.
#[tokio::test]
async fn a_slow_server_is_not_taken_for_a_stuck_one() {
    let slow =
        Upstream::http(|heard: &HeardMessage| match (heard.method(), modern(&["t"])(heard)) {
            ("tools/call", Say::Json(answer)) => Say::Late(Duration::from_millis(1400), answer),
            (_, say) => say,
        })
        .await;
    let bounds = json!({"concurrency": 1, "stall_timeout": 1});
    let gate = Gate::start(json!({"servers": {"a": slow.with(bounds)}})).await;
    assert_eq!(gate.call("a__t").await.code(), 0, "what its calls usually take is known now");
    let (a, b, c) = tokio::join!(gate.call("a__t"), gate.call("a__t"), gate.call("a__t"));
    assert_eq!([a.code(), b.code(), c.code()], [0; 3]);
}

/// Returns a statement of 64 KB that uses the parser's whole time limit.
fn difficult() -> String {
    format!("SELECT * FROM t WHERE a IN ({}1) AND pg_sleep(9) > 1", "1,".repeat(31_000))
}

/// 32 callers with expensive statements: probes and calls of others respond promptly, other
/// statements get their turn, and no statement bypasses the check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn difficult_judgements_hold_up_nobody_else() {
    let server = Upstream::http(modern(&["query"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.yaml");
    let text = "policies:\n  - name: reads\n    effect: allow\n    what: { tools: [a/query] }\n    arguments:\n      /sql: { sql: {} }\n";
    std::fs::write(&file, text).unwrap();
    let policy = json!({"files": [file]});
    let auth = json!({"keys_file": "keys.yaml"});
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "auth": auth, "policy": policy}))
            .await;
    let (greedy, fair) = (key(&gate, "greedy", &[]).await, key(&gate, "fair", &[]).await);
    let query = |sql: &str, key: &str| {
        let arguments = json!({"name": "a__query", "arguments": {"sql": sql}});
        by(Request::modern("/mcp", "tools/call", arguments), key)
    };
    let sql = "SELECT name, count(*) FROM cities WHERE country = 'France' AND area > 1000 GROUP BY name ORDER BY name LIMIT 10";
    let good = query(sql, &fair);
    assert!(good.body.len() > 128);
    assert_eq!(good.send(gate.address).await.code(), 0);
    let began = Instant::now();
    let alone = query(&difficult(), &greedy).send(gate.address).await;
    assert!(
        began.elapsed() > Duration::from_millis(20),
        "not difficult any more: {:?} {}",
        began.elapsed(),
        alone.text()
    );
    let crowd = Crowd::start(&gate, 32, &query(&difficult(), &greedy));
    until("the crowd is there", async || (crowd.refused.load(Ordering::Relaxed) > 0).then_some(()))
        .await;
    let mut probes = Vec::new();
    for _ in 0..40 {
        let began = Instant::now();
        assert_eq!(Request::bare("GET", "/healthz", "").send(gate.address).await.status, 200);
        let list =
            by(Request::modern("/mcp", "tools/list", json!({})), &fair).send(gate.address).await;
        assert_eq!(list.code(), 0);
        probes.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    probes.sort();
    eprintln!("p75 of probes {:?}, p99 {:?}", p75(&probes), p99(&probes));
    // The limit on a check is half a second; checks that blocked their thread took 3.8 s.
    assert!(p75(&probes) < Duration::from_millis(250), "{probes:?}");
    assert!(p99(&probes) < Duration::from_secs(2), "{probes:?}");
    let began = Instant::now();
    let answer = good.send(gate.address).await;
    assert_eq!(answer.code(), 0, "{}", answer.text());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(crowd.answered.load(Ordering::Relaxed), 0, "none of these may pass");
    assert_eq!(server.count("tools/call"), 2);
}

/// Idle integrations do not reduce the permits of an operator's server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integrations_at_rest_hold_no_places_of_a_shared_server() {
    let other = Upstream::http(modern(&["t"])).await;
    let shared = Upstream::http(hanging(modern(&["t"]))).await;
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::start(json!({
        "store": {"file": folder.path().join("lockgate.db")},
        "servers": {"shared": shared.config()},
    }))
    .await;
    let url = format!("http://{}/mcp", other.address);
    for n in 0..110 {
        let body = json!({"name": format!("n{n}"), "serverUrl": url, "authMethod": "none"});
        let request = Request::bare("POST", "/api/mcp-integrations/custom", body.to_string());
        let made = request.send(gate.address).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let address = gate.address;
        callers.spawn(async move { call("shared__t").send(address).await });
    }
    until("all of them run", async || (shared.count("tools/call") == 32).then_some(())).await;
}
