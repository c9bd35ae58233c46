//! `limits.memory`: resident memory stays below the limit under any load, small calls continue, and
//! memory is returned after a peak.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::rig::client::Request;
use crate::rig::gate::Gate;
use crate::rig::upstream::{modern, modern_with};
use crate::rig::{Answer, HeardMessage, Say, Upstream, json, until};

const MIB: usize = 1 << 20;
/// Size of a request body in bytes.
const BODY: usize = 4 * MIB;
const LIMIT: usize = 128 * MIB;
/// The part of the limit for messages and their copies, without the program itself.
const FOR_MESSAGES: usize = 64 * MIB;

/// Returns a memory figure of the process in bytes: `VmHWM` is the peak, `VmRSS` the current value.
fn memory(gate: &Gate, figure: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Returns the bound of resident memory for a program under [`LIMIT`] that has not been called yet.
/// A debug build is larger than a release build, for which the limit is meant.
fn bound(gate: &Gate) -> usize {
    LIMIT.max(memory(gate, "VmRSS") + FOR_MESSAGES)
}

/// Returns the start of a response with `bytes` of text.
fn start_of_answer(heard: &HeardMessage, bytes: usize) -> Vec<u8> {
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":""#,
        heard.body["id"]
    );
    let mut start = head.into_bytes();
    start.resize(bytes, b'x');
    start
}

/// Returns a modern server with tools that stall after this many bytes, or return a long or small
/// text.
fn filler(kind: &'static str, bytes: usize) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = modern(&["stall", "long", "small", "silent"]);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("stall")) => {
            let mut start = start_of_answer(heard, bytes);
            if kind == "text/event-stream" {
                start.splice(0..0, *b"data: ");
            }
            Say::Stalled(kind, Arc::new(start))
        }
        ("tools/call", Some("long")) => heard.text_result(&"x".repeat(bytes)),
        ("tools/call", Some("silent")) => Say::Nothing,
        _ => plain(heard),
    }
}

fn call(tool: &str) -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}}))
}

/// Returns a server with a large list.
fn lists() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let words = "d".repeat(1000);
    let tool = |n| json!({"name": format!("t{n}"), "description": words, "inputSchema": {"type": "object"}});
    modern_with((0..3000).map(tool).collect())
}

/// Makes calls at a human pace in both eras for this time, at least six; returns the longest time.
async fn polite(gate: &Gate, time: Duration) -> Duration {
    let session = gate.session("/mcp", "2025-11-25").await;
    let began = Instant::now();
    let (mut calls, mut longest) = (0, Duration::ZERO);
    while began.elapsed() < time || calls < 6 {
        let at = Instant::now();
        for answer in [gate.call("polite__t").await, session.call("polite__t").await] {
            assert_eq!(answer.code(), 0, "{}", answer.text());
        }
        longest = longest.max(at.elapsed());
        calls += 2;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    longest
}

/// Sends a request with an unfinished body.
async fn half_a_body(gate: &Gate) -> TcpStream {
    let request = call("json__small");
    let text = String::from_utf8(request.bytes()).unwrap();
    let head = text.split("Content-Length").next().unwrap().to_owned();
    let mut socket = TcpStream::connect(gate.address).await.unwrap();
    socket.write_all(format!("{head}Content-Length: {BODY}\r\n\r\n").as_bytes()).await.unwrap();
    // The gateway may stop reading, or reject the request.
    let _ = tokio::time::timeout(Duration::from_secs(3), socket.write_all(&vec![b' '; BODY - 10]))
        .await;
    socket
}

/// Fills every path beyond its capacity at the same time: stalled responses over all transports,
/// unread responses, whole and unfinished bodies, open streams, and a large list.
#[tokio::test]
async fn memory_stays_under_its_limit_however_it_is_filled() {
    let json = Upstream::http(filler("application/json", 12 * MIB)).await;
    let events = Upstream::http(filler("text/event-stream", 9 * MIB)).await;
    let lines = Upstream::lines(filler("", 9 * MIB)).await;
    let long = Upstream::http(filler("application/json", 3 * MIB)).await;
    let (lists, polite_server) =
        (Upstream::http(lists()).await, Upstream::http(modern(&["t"])).await);
    let gate = Gate::start(json!({
        "servers": {
            "json": json.config(), "events": events.config(), "lines": lines.config(), "long": long.config(),
            "lists": lists.config(), "polite": polite_server.config(),
        },
        "limits": {"memory": LIMIT}, "http": {"body_bytes": BODY},
    }))
    .await;
    let bound = bound(&gate);
    let mut stalled: JoinSet<Answer> = JoinSet::new();
    for tool in ["json__stall", "events__stall", "lines__stall"] {
        for _ in 0..8 {
            let (request, address) = (call(tool), gate.address);
            stalled.spawn(async move { request.send(address).await });
        }
    }
    let mut unread = Vec::new();
    let fill = async {
        for _ in 0..8 {
            let bytes = call("long__long").bytes();
            let mut socket = TcpStream::connect(gate.address).await.unwrap();
            socket.write_all(&bytes).await.unwrap();
            unread.push(socket);
        }
        let body =
            |tool| call(tool).body([&call(tool).body[..], &vec![b' '; BODY - 1000]].concat());
        let (whole, small) = (body("json__silent"), body("polite__t"));
        let (one, two) = (half_a_body(&gate), half_a_body(&gate));
        let wholes =
            async { tokio::time::timeout(Duration::from_secs(2), whole.send(gate.address)).await };
        tokio::join!(one, two, half_a_body(&gate), wholes, small.send(gate.address))
    };
    let (longest, _filled) = tokio::join!(polite(&gate, Duration::from_secs(6)), fill);
    assert!(longest < Duration::from_secs(30), "{longest:?}");
    let mut refused = 0;
    while let Some(Ok(answer)) = stalled.try_join_next() {
        let error = &answer.json()["error"];
        assert_eq!((answer.status, answer.code()), (503, -31053), "{}", answer.text());
        assert_eq!(error["data"]["reason"], "memory", "{error}");
        assert!(error["message"].as_str().unwrap().contains("limits.bytes_in_flight"), "{error}");
        refused += 1;
    }
    assert!(refused > 0, "somebody has to go");
    let most = memory(&gate, "VmHWM");
    eprintln!(
        "{} MiB at most, the longest call took {longest:?}, {refused} were refused",
        most / MIB
    );
    assert!(most < bound, "{} MiB of {}", most / MIB, bound / MIB);
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let figure = |name: &str| {
        metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
    };
    assert_eq!(
        figure("lockgate_bytes_in_flight_limit "),
        Some(((LIMIT - 64 * MIB) / 2) as f64),
        "{metrics}"
    );
    assert!(
        figure("lockgate_messages_refused_for_memory_total ").is_some_and(|count| count >= 1.0),
        "{metrics}"
    );
    assert!(figure("lockgate_bytes_in_flight ").is_some_and(|bytes| bytes > 0.0), "{metrics}");
}

/// A large unfinished response is evicted when others need room, in both eras, with an explanation.
#[tokio::test]
async fn an_answer_that_never_ends_gives_way() {
    let stall = Upstream::http(filler("text/event-stream", 9 * MIB)).await;
    let long = Upstream::lines(filler("", 3 * MIB)).await;
    let servers = json!({"stall": stall.config(), "long": long.config()});
    let gate =
        Gate::start(json!({"servers": servers, "limits": {"bytes_in_flight": "10MiB"}, "http": {"body_bytes": BODY}}))
            .await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for era in ["modern", "legacy"] {
        let params = json!({"name": "stall__stall", "arguments": {}});
        let stalled = match era {
            "modern" => Request::modern("/mcp", "tools/call", params),
            _ => Request::legacy("/mcp", &session.id, 1, "tools/call", &params),
        };
        let other = async {
            until("9 MiB are held", async || {
                let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
                let line = metrics
                    .lines()
                    .find_map(|line| line.strip_prefix("lockgate_bytes_in_flight ")?.parse().ok());
                line.is_some_and(|held: usize| held >= 9 * MIB).then_some(())
            })
            .await;
            gate.call("long__long").await
        };
        let (stalled, other) = tokio::join!(stalled.send(gate.address), other);
        assert!(other.code() == 0 && other.body.len() > 3 * MIB, "{era}: {}", other.status);
        assert_eq!(
            (stalled.code(), &stalled.json()["error"]["data"]["reason"]),
            (-31053, &json!("memory")),
            "{era}"
        );
        assert_eq!(stalled.header("retry-after"), None, "the call was made");
    }
    assert_eq!(gate.call("stall__small").await.code(), 0, "the server is not to blame");
}

#[tokio::test]
async fn memory_of_a_peak_is_given_back() {
    let long = Upstream::http(filler("text/event-stream", 15 * MIB)).await;
    let medium = Upstream::http(filler("application/json", 200 << 10)).await;
    let servers = json!({"long": long.config(), "medium": medium.config()});
    let gate = Gate::start(json!({"servers": servers, "limits": {"memory": "256MiB"}})).await;
    let mediums = async |count: usize| {
        let mut all = JoinSet::new();
        for _ in 0..count {
            let (request, address) = (call("medium__long"), gate.address);
            all.spawn(async move { request.send(address).await.code() });
        }
        while let Some(code) = all.join_next().await {
            assert_eq!(code.unwrap(), 0);
        }
    };
    // Memory that every thread and connection keeps after its first work.
    mediums(10).await;
    let before = memory(&gate, "VmRSS");
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        socket.write_all(&call("long__stall").bytes()).await.unwrap();
        clients.push(socket);
    }
    mediums(40).await;
    let rises = async || (memory(&gate, "VmRSS") > before + 45 * MIB).then_some(());
    until("large answers come in", rises).await;
    let most = memory(&gate, "VmHWM");
    drop(clients);
    let falls = async || (memory(&gate, "VmRSS") < before + 16 * MIB).then_some(());
    until("what the peak took is back", falls).await;
    let after = memory(&gate, "VmRSS");
    eprintln!("{} MiB before, {} at most, {} after", before / MIB, most / MIB, after / MIB);
}

/// Limit on the total memory per idle event stream, each on its own connection. (Before: 44 KiB.)
#[tokio::test]
async fn an_open_stream_costs_little() {
    const STREAMS: usize = 1000;
    const EACH: usize = 16 << 10;
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "limits": {"streams_per_principal": 2 * STREAMS + 10},
    }))
    .await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let modern = Request::modern("/mcp", "subscriptions/listen", listen);
    let mut legacy = Vec::new();
    for _ in 0..STREAMS {
        let session = gate.session("/mcp", "2025-11-25").await;
        let get = Request::bare("GET", "/mcp", "").with("Accept", "text/event-stream");
        legacy.push(get.with("Mcp-Session-Id", &session.id));
    }
    // One-time allocations precede the measurement.
    drop((modern.open(gate.address).await, legacy[0].open(gate.address).await));
    let mut open = Vec::with_capacity(2 * STREAMS);
    for (era, requests) in [("modern", vec![modern; STREAMS]), ("legacy", legacy)] {
        let before = memory(&gate, "VmRSS");
        for request in &requests {
            let stream = request.open(gate.address).await;
            assert_eq!(stream.head.status, 200, "{era}");
            open.push(stream);
        }
        let each = memory(&gate, "VmRSS").saturating_sub(before) / STREAMS;
        eprintln!("{era}: {each} bytes of resident memory for each open stream");
        assert!(each <= EACH, "{era}: {each} bytes");
    }
}

/// Limit on the total memory per call that waits for its client's answer; such calls do not slow
/// down others.
#[tokio::test]
async fn a_call_that_waits_for_an_answer_costs_little() {
    const CALLS: usize = 1000;
    const EACH: usize = 52 << 10;
    let server = Upstream::http(crate::parked::asking()).await;
    let limits = json!({"parked_calls_per_principal": CALLS});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "limits": limits})).await;
    let able = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let call = |tool: &str| {
        let params = json!({"name": tool, "arguments": {}, "_meta": able});
        Request::modern("/mcp", "tools/call", params)
    };
    let ask = call("a__ask");
    assert_eq!(ask.send(gate.address).await.result()["resultType"], "input_required");
    let before = memory(&gate, "VmRSS");
    for _ in 1..CALLS {
        assert_eq!(ask.send(gate.address).await.result()["resultType"], "input_required");
    }
    let each = memory(&gate, "VmRSS").saturating_sub(before) / CALLS;
    eprintln!("{each} bytes of resident memory for each call that waits");
    assert!(each <= EACH, "{each} bytes");
    assert_eq!(ask.send(gate.address).await.status, 503, "one more than there may be");
    let began = Instant::now();
    for _ in 0..20 {
        assert!(call("a__open").send(gate.address).await.code() != 0);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Cached lists count for as long as they are cached, and a list that does not fit leaves the old
/// list in place.
#[tokio::test]
async fn kept_lists_count_and_one_that_does_not_fit_leaves_the_old_one() {
    let turns = Arc::new(AtomicUsize::new(0));
    let said = Arc::clone(&turns);
    let lists = Upstream::lines(move |heard| {
        if heard.method() != "tools/list" {
            return modern(&[])(heard);
        }
        let turn = said.fetch_add(1, Ordering::SeqCst);
        let (count, changed) = match turn {
            0 => (1000, "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}"),
            _ => (6000, ""),
        };
        let words = "what it does ".repeat(80);
        let tool = |n| json!({"name": format!("t{turn}-{n}"), "description": words, "inputSchema": {"type": "object"}});
        let tools: Vec<_> = (0..count).map(tool).collect();
        let result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools});
        Say::Text("", format!("{}{changed}", heard.result(result)).into_bytes())
    })
    .await;
    let limits = json!({"bytes_in_flight": BODY});
    let gate =
        Gate::start(json!({"servers": {"lists": lists.config()}, "limits": limits, "http": {"body_bytes": BODY}}))
            .await;
    until("the larger list is refused", async || {
        gate.log().contains("the previous lists stay in use").then_some(())
    })
    .await;
    assert!(gate.tools("/mcp").await.0.iter().all(|name| name.starts_with("lists__t0-")));
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let held = metrics
        .lines()
        .find_map(|line| line.strip_prefix("lockgate_bytes_in_flight ")?.parse::<usize>().ok());
    assert!(held.is_some_and(|held| held > MIB && held < 2 * MIB), "{held:?}");
}

/// Responses of REST and tRPC count like those of MCP: batches of large results and unread
/// responses get room or are rejected.
#[tokio::test]
async fn answers_over_the_api_and_trpc_count_until_they_are_written() {
    let server = Upstream::http(filler("application/json", 6 * MIB)).await;
    let gate = Gate::start(json!({
        "servers": {"long": server.config()},
        "limits": {"memory": LIMIT},
    }))
    .await;
    let at = gate.address;
    assert_eq!(gate.call("long__small").await.code(), 0);
    let bound = bound(&gate);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let bytes = Request::bare("POST", "/api/tools/long__long/execute", "").bytes();
        let mut socket = TcpStream::connect(at).await.unwrap();
        socket.write_all(&bytes).await.unwrap();
        unread.push(socket);
    }
    let paths = vec!["mcp.executeTool"; 16].join(",");
    let mut inputs = json!({});
    for number in 0..16 {
        inputs[number.to_string()] = json!({"name": "long__long"});
    }
    for header in ["application/json", "application/jsonl"] {
        let path = format!("/trpc/{paths}?batch=1");
        let batch = Request::bare("POST", &path, inputs.to_string()).with("trpc-accept", header);
        let answered = batch.send(at).await;
        let refused = answered.text().matches("\"httpStatus\":503").count();
        assert!(refused > 0, "{}: there is no room for all", answered.status);
        let most = memory(&gate, "VmHWM");
        eprintln!("{} MiB at most, {refused} of a batch of 16 refused", most / MIB);
        assert!(most < bound, "{} MiB of {}", most / MIB, bound / MIB);
    }
    drop(unread);
    let path = "/api/tools/long__long/execute";
    until("there is room again", async || {
        let answer = Request::bare("POST", path, "").send(at).await;
        (answer.status == 200 && answer.body.len() > 6 * MIB).then_some(())
    })
    .await;
    let metrics = Request::bare("GET", "/metrics", "").send(at).await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("lockgate_bytes_in_flight "));
    let held: f64 = line.unwrap().trim().parse().unwrap();
    assert!(held < MIB as f64, "{held} bytes are still held");
}
