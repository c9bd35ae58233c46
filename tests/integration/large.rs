//! Large responses are streamed in both eras without being buffered. Errors after the start close
//! the connection, and other calls are not delayed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::rig::client::Request;
use crate::rig::gate::Gate;
use crate::rig::upstream::modern;
use crate::rig::{EVENT_TIMEOUT, HeardMessage, Say, Session, Upstream, Value, json, until};

const MIB: usize = 1 << 20;

/// The outcome of a request: the bytes of the body, and whether it was complete.
struct Received {
    status: u16,
    body: Vec<u8>,
    is_complete: bool,
}

impl Received {
    fn json(&self) -> Value {
        assert!(self.is_complete && self.status == 200, "{}: {}", self.status, self.start());
        serde_json::from_slice(&self.body).unwrap()
    }

    fn start(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(400)]).into_owned()
    }
}

/// Sends a request and reads the response to its end, with a pause after the first bytes.
async fn receive(address: SocketAddr, request: &Request, pause: Duration) -> Received {
    let socket = TcpSocket::new_v4().unwrap();
    if !pause.is_zero() {
        socket.set_recv_buffer_size(16 << 10).unwrap();
    }
    let mut socket = socket.connect(address).await.unwrap();
    socket.write_all(&request.clone().with("connection", "close").bytes()).await.unwrap();
    let mut raw = vec![0; 1000];
    let count = socket.read(&mut raw).await.unwrap();
    raw.truncate(count);
    tokio::time::sleep(pause).await;
    let all = tokio::time::timeout(EVENT_TIMEOUT * 6, socket.read_to_end(&mut raw));
    // A reset also ends the response.
    let _ = all.await.expect("the answer did not end");
    let head_end = raw.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&raw[..head_end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = raw.split_off(head_end);
    if !head.contains("transfer-encoding: chunked") {
        return Received { status, body, is_complete: true };
    }
    let (mut plain, mut rest) = (Vec::with_capacity(body.len()), &body[..]);
    while let Some(line) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return Received { status, body: plain, is_complete: true };
        }
        let end = (line + 2 + size).min(rest.len());
        plain.extend_from_slice(&rest[line + 2..end]);
        rest = rest.get(end + 2..).unwrap_or_default();
    }
    Received { status, body: plain, is_complete: false }
}

/// Returns a server of both eras with tools that return this many bytes of text, followed by `end`.
fn large(bytes: usize, end: &'static str) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = modern(&["large", "small", "stall"]);
    move |heard| {
        let start = || {
            let id = &heard.body["id"];
            let link = r#"{"type":"resource_link","name":"l","uri":"file:///a"}"#;
            format!(r#"{{"id":{id},"result":{{"content":[{link},{{"type":"text","text":""#)
                .into_bytes()
        };
        match heard.body["params"]["name"].as_str() {
            Some("large") => Say::Long(start(), bytes, end),
            Some("stall") => {
                let mut start = start();
                start.resize(bytes, b'x');
                Say::Stalled("application/json", Arc::new(start))
            }
            _ => plain(heard),
        }
    }
}

const GOOD: &str = r#"\n"}],"isError":true,"resultType":"complete","_meta":{"progressToken":1,"a/b":2}},"jsonrpc":"2.0"}"#;

fn request(session: Option<&Session<'_>>, path: &str, tool: &str) -> Request {
    let params = json!({"name": tool, "arguments": {}});
    match session {
        None => Request::modern(path, "tools/call", params),
        Some(session) => Request::legacy(path, &session.id, 1, "tools/call", &params),
    }
}

/// Returns a memory figure of the process in bytes.
fn memory(gate: &Gate, figure: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_large_answer_passes_through_and_is_the_clients_own() {
    let server = Upstream::http(large(3 * MIB, GOOD)).await;
    let gate = Gate::start(json!({"servers": {"s": server.config()}})).await;
    for (path, tool, uri) in
        [("/mcp", "s__large", "s+file:///a"), ("/servers/s/mcp", "large", "file:///a")]
    {
        let session = gate.session(path, "2025-11-25").await;
        for session in [None, Some(&session)] {
            let received =
                receive(gate.address, &request(session, path, tool), Duration::ZERO).await;
            let answer = received.json();
            let result = &answer["result"];
            assert_eq!(result["content"][0]["uri"], uri);
            assert_eq!(result["content"][1]["text"].as_str().unwrap().len(), 3 * MIB + 1);
            assert_eq!((&result["isError"], &result["_meta"]["a/b"]), (&json!(true), &json!(2)));
            assert_eq!(result["_meta"].get("progressToken"), None);
            assert_eq!(
                answer["id"],
                serde_json::from_slice::<Value>(&request(session, path, tool).body).unwrap()["id"]
            );
            assert_eq!(result.get("resultType").is_some(), session.is_none());
        }
    }
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let counted = metrics.lines().any(|l| {
        l.starts_with("lockgate_calls_total") && l.contains("tool_error") && l.ends_with(" 4")
    });
    assert!(counted, "{metrics}");
}

/// Six concurrent responses, each larger than the buffer limit.
#[tokio::test]
async fn large_answers_take_no_memory() {
    let server = Upstream::http(large(20 * MIB, GOOD)).await;
    let limits = json!({"memory": "128MiB"});
    let gate = Gate::start(json!({"servers": {"s": server.config()}, "limits": limits})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let before = memory(&gate, "VmHWM");
    let mut all = JoinSet::new();
    for n in 0..6 {
        let request = request((n % 2 == 0).then_some(&session), "/mcp", "s__large");
        let address = gate.address;
        all.spawn(async move { receive(address, &request, Duration::ZERO).await });
    }
    while let Some(received) = all.join_next().await {
        let received = received.unwrap();
        assert!(received.is_complete && received.body.len() > 20 * MIB, "{}", received.start());
    }
    let most = memory(&gate, "VmHWM");
    eprintln!(
        "six answers of 20 MiB took {} MiB, {} MiB at most",
        (most - before) / MIB,
        most / MIB
    );
    assert!(most < before + 30 * MIB, "{} MiB, {} MiB before", most / MIB, before / MIB);
}

/// Errors after the start of a response close the connection, so that no client accepts it.
#[tokio::test]
async fn an_answer_that_goes_wrong_breaks_off() {
    let ends = [
        "\"}]]}",
        "\x01\"}]}}",
        "\"}],\"content\":[]},\"jsonrpc\":\"2.0\"}",
        "\"}],\"resultType\":\"task\"},\"jsonrpc\":\"2.0\"}",
        "\"}]},\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"m\"}}",
        "\"}]}}",
        "\"}]},\"jsonrpc\":\"2.0\"} x",
        "\"}]},\"jsonrpc\":\"2.0\"",
    ];
    for end in ends {
        let server = Upstream::http(large(MIB, end)).await;
        let gate = Gate::start(json!({"servers": {"s": server.config()}})).await;
        let session = gate.session("/mcp", "2025-11-25").await;
        for session in [None, Some(&session)] {
            let received =
                receive(gate.address, &request(session, "/mcp", "s__large"), Duration::ZERO).await;
            assert!(
                !received.is_complete && received.body.len() > MIB / 2,
                "{end}: {}",
                received.start()
            );
            assert_eq!(gate.call("s__small").await.code(), 0, "{end}");
        }
        assert!(gate.log().contains("failed after its start"), "{end}: {}", gate.log());
    }
}

/// The server's timeout does not include the time the client takes to read.
#[tokio::test]
async fn a_slow_client_gets_its_answer_and_a_server_that_stops_is_given_up() {
    let (slow, stops) =
        (Upstream::http(large(14 * MIB, GOOD)).await, Upstream::http(large(MIB, GOOD)).await);
    let time = json!({"timeout": "4s"});
    let servers = json!({"slow": slow.with(time.clone()), "stops": stops.with(time)});
    let gate = Gate::start(json!({"servers": servers})).await;
    let session = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let both = async |session: Option<&Session<'_>>| {
        let (slow, stall) =
            (request(session, "/mcp", "slow__large"), request(session, "/mcp", "stops__stall"));
        let began = Instant::now();
        let (received, stopped) =
            tokio::join!(receive(gate.address, &slow, Duration::from_secs(6)), async {
                (receive(gate.address, &stall, Duration::ZERO).await, began.elapsed())
            },);
        assert_eq!(received.json()["result"]["isError"], true);
        let (stopped, took) = stopped;
        assert!(!stopped.is_complete && stopped.body.len() > MIB / 2, "{}", stopped.start());
        assert!(took >= Duration::from_secs(4) && took < EVENT_TIMEOUT, "{took:?}");
    };
    tokio::join!(both(None), both(Some(&session)));
    until("the calls are counted", async || {
        let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
        let mut timeouts = metrics
            .lines()
            .filter(|l| l.starts_with("lockgate_calls_total") && l.contains("timeout"));
        timeouts.any(|l| l.ends_with(" 2")).then_some(())
    })
    .await;
}

/// A client disconnects during a response: the server's remaining data is not read.
#[tokio::test]
async fn a_client_that_leaves_ends_its_call() {
    let server = Upstream::http(large(MIB, GOOD)).await;
    let gate = Gate::start(json!({"servers": {"s": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for session in [None, Some(&session)] {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        socket.write_all(&request(session, "/mcp", "s__stall").bytes()).await.unwrap();
        socket.read_exact(&mut vec![0; MIB / 2]).await.unwrap();
        let running = async || {
            let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
            let line = metrics.lines().find(|l| l.starts_with("lockgate_server_calls_running"));
            line.map(|line| line.ends_with(" 1"))
        };
        assert_eq!(running().await, Some(true));
        drop(socket);
        if session.is_none() {
            until("the call has ended", async || (running().await == Some(false)).then_some(()))
                .await;
        }
    }
}

/// Secrets are removed from the results of the server `judged`.
const POLICIES: &str = "policies:
  - { name: all, effect: allow }
  - { name: clean, effect: deny, what: { tools: ['judged/*'] }, response: { secrets: true } }
";

/// Large results are scanned on separate threads, without delaying other calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_large_answers_holds_up_nobody() {
    let (streamed, judged) =
        (Upstream::http(large(24 * MIB, GOOD)).await, Upstream::http(large(24 * MIB, GOOD)).await);
    let lines = Upstream::lines(large(12 * MIB, GOOD)).await;
    // A server of its own: small responses of the others wait in their pipes and processes.
    let beside = Upstream::http(large(1, GOOD)).await;
    let folder = tempfile::tempdir().unwrap();
    let policies = folder.path().join("policies.yaml");
    std::fs::write(&policies, POLICIES).unwrap();
    let gate = Gate::start(json!({
        "servers": {
            "streamed": streamed.config(), "judged": judged.config(), "lines": lines.config(),
            "beside": beside.config(),
        },
        "limits": {"memory": "900MiB"}, "policy": {"files": [policies]},
    }))
    .await;
    let mut all = JoinSet::new();
    for tool in ["streamed__large", "judged__large", "lines__large", "judged__large"] {
        let (address, request) = (gate.address, request(None, "/mcp", tool));
        all.spawn(async move { receive(address, &request, Duration::ZERO).await });
    }
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    while !all.is_empty() {
        let at = Instant::now();
        assert_eq!(gate.call("beside__small").await.code(), 0);
        longest = longest.max(at.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
        while let Some(received) = all.try_join_next() {
            assert!(received.unwrap().is_complete);
        }
    }
    eprintln!("the longest call beside four large answers took {longest:?}");
    // A slow machine takes longer for all: a call that waited for a single large answer would take a
    // quarter of the time.
    let limit = (began.elapsed() / 5).max(Duration::from_secs(2));
    assert!(longest < limit, "{longest:?}");
}
