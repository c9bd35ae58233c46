//! Request bodies that arrive slowly or never: they hold no permit, are limited per connection and
//! per caller, and do not delay others. Tests use the defaults except for the limit they test.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

/// Longer than a call takes, and much shorter than the limit on a body.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(5);

fn call() -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}))
}

/// Returns a call with a body that is never complete.
fn half(request: &Request) -> Vec<u8> {
    let text = String::from_utf8(request.bytes()).unwrap();
    text.replace(&format!("Content-Length: {}", request.body.len()), "Content-Length: 1000")
        .into_bytes()
}

/// Opens an HTTP/2 connection with this many calls, each with the first byte of its body.
async fn open_http2(gate: &Gate, key: &str, calls: u32) -> TcpStream {
    let mut bytes =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec();
    let bearer = format!("Bearer {key}");
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/mcp"),
        (":authority", "localhost"),
        ("content-type", "application/json"),
        ("authorization", &bearer),
    ];
    let mut block = Vec::new();
    for (name, value) in headers {
        // Literal without indexing and without compression (RFC 7541, section 6.2.2).
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    for stream in (0..calls).map(|n| 2 * n + 1) {
        for (kind, flags, payload) in [(1_u8, 4_u8, &block[..]), (0, 0, b"{")] {
            bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
            bytes.extend_from_slice(&[kind, flags]);
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.extend_from_slice(payload);
        }
    }
    let mut socket = TcpStream::connect(gate.address).await.unwrap();
    socket.write_all(&bytes).await.unwrap();
    socket
}

async fn keyed(server: &Upstream, http: Value) -> (Gate, [String; 2]) {
    let config = json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"}, "http": http});
    let gate = Gate::start(config).await;
    let keys = [create_key(&gate, "slow").await, create_key(&gate, "polite").await];
    (gate, keys)
}

async fn by(request: Request, key: &str, gate: &Gate) -> Answer {
    request.with("Authorization", &format!("Bearer {key}")).send(gate.address).await
}

/// Checks that calls with this key are fast in both eras.
async fn calls_are_prompt(gate: &Gate, key: &str) {
    let began = Instant::now();
    for _ in 0..5 {
        let modern = by(call(), key, gate).await;
        assert_eq!((modern.status, modern.code()), (200, 0), "{}", modern.text());
    }
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let open =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let opened = by(Request::bare("POST", "/mcp", open), key, gate).await;
    let session =
        opened.header("mcp-session-id").unwrap_or_else(|| panic!("{}", opened.text())).to_owned();
    let params = json!({"name": "a__t", "arguments": {}});
    let legacy = by(Request::legacy("/mcp", &session, 1, "tools/call", &params), key, gate).await;
    assert_eq!((legacy.status, legacy.code()), (200, 0), "{}", legacy.text());
    assert!(began.elapsed() < PROMPT_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn one_connection_with_128_open_bodies_delays_nobody() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, [slow, polite]) = keyed(&server, json!({})).await;
    let mut attack = open_http2(&gate, &slow, 128).await;
    calls_are_prompt(&gate, &polite).await;
    calls_are_prompt(&gate, &slow).await;
    // All but a few are rejected soon.
    let mut answers = Vec::new();
    until("slow bodies are refused", async || {
        let mut bytes = [0; 65536];
        if let Ok(n) =
            tokio::time::timeout(Duration::from_millis(100), attack.read(&mut bytes)).await
        {
            answers.extend_from_slice(&bytes[..n.unwrap()]);
        }
        let text = String::from_utf8_lossy(&answers);
        (text.matches("slow_bodies_per_connection\"").count() == 112).then_some(())
    })
    .await;
}

#[tokio::test]
async fn eleven_hundred_connections_with_half_a_body_refuse_nobody_else() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, [slow, polite]) = keyed(&server, json!({})).await;
    let bytes = half(&call().with("Authorization", &format!("Bearer {slow}")));
    let mut attack = Vec::new();
    for _ in 0..1100 {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        socket.write_all(&bytes).await.unwrap();
        attack.push(socket);
    }
    calls_are_prompt(&gate, &polite).await;
    calls_are_prompt(&gate, &slow).await;
    let (mut too_many, mut too_slow) = (0, 0);
    for mut socket in attack {
        let mut answer = String::new();
        let read = tokio::time::timeout(PROMPT_TIMEOUT * 3, socket.read_to_string(&mut answer));
        read.await.expect("every one of them is refused").unwrap();
        if answer.contains(r#""data":{"reason":"slow_bodies_per_principal"}"#) {
            let after = answer
                .split("retry-after: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            // At most the limit on one body (`http.read_timeout`), and not a constant.
            assert!(
                answer.starts_with("HTTP/1.1 503")
                    && after.is_some_and(|after: u64| (2..=30).contains(&after)),
                "{answer}"
            );
            too_many += 1;
        } else {
            assert!(answer.contains(r#""data":{"reason":"body_rate"}"#), "{answer}");
            too_slow += 1;
        }
    }
    assert!(too_many >= 400 && too_slow >= 256, "{too_many} {too_slow}");
}

/// `http.body_rate` and `http.read_timeout`: the response names the limit that was exceeded.
#[tokio::test]
async fn a_body_keeps_a_pace_and_comes_in_time() {
    let server = Upstream::http(modern(&["t"])).await;
    let gates = [
        (
            Gate::start(json!({"servers": {"a": server.config()}, "http": {"body_rate": 20}}))
                .await,
            "body_rate",
        ),
        (
            Gate::start(json!({"servers": {"a": server.config()}, "http": {"read_timeout": 2}}))
                .await,
            "body_timeout",
        ),
    ];
    for (gate, reason) in gates {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        let (mut answer, began) = (String::new(), Instant::now());
        socket.write_all(&half(&call())).await.unwrap();
        let read =
            tokio::time::timeout(Duration::from_secs(15), socket.read_to_string(&mut answer));
        read.await.expect("an answer in time").unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains(&format!(r#""data":{{"reason":"{reason}"}}"#)), "{answer}");
        let least = if reason == "body_rate" { 5 } else { 2 };
        assert!(began.elapsed() >= Duration::from_secs(least), "{reason}: {:?}", began.elapsed());
        // Other connections are not affected.
        assert_eq!(call().send(gate.address).await.code(), 0);
    }
}

/// `http.unfinished_bytes_per_connection` and `_per_principal`, tested just above the limit.
#[tokio::test]
async fn bytes_of_incomplete_bodies_are_bounded() {
    let server = Upstream::http(modern(&["t"])).await;
    let bounds = json!({"body_bytes": 4096, "unfinished_bytes_per_connection": 4096, "unfinished_bytes_per_principal": 6000});
    let (gate, [slow, polite]) = keyed(&server, bounds).await;
    let open = async |key: &str, bytes: usize| {
        let mut request = call().with("Authorization", &format!("Bearer {key}"));
        let text = half(&request.clone());
        request.body = vec![b' '; bytes];
        let head = String::from_utf8(text).unwrap();
        let head = head
            .split("\r\n\r\n")
            .next()
            .unwrap()
            .replace("Content-Length: 1000", "Content-Length: 4096");
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        socket.write_all(format!("{head}\r\n\r\n{}", " ".repeat(bytes)).as_bytes()).await.unwrap();
        socket
    };
    let mut first = open(&slow, 4000).await;
    let mut second = open(&slow, 2001).await;
    // The body that is read last exceeds the limit.
    let (mut one, mut other) = (String::new(), String::new());
    let refused = async {
        tokio::select! {
            read = first.read_to_string(&mut one) => drop(read),
            read = second.read_to_string(&mut other) => drop(read),
        }
    };
    tokio::time::timeout(PROMPT_TIMEOUT, refused).await.expect("one of the two is refused");
    let answer = one + &other;
    assert!(answer.contains(r#""data":{"reason":"unfinished_bytes_per_principal"}"#), "{answer}");
    // Other callers have their own limit, and complete bodies do not count.
    let mut other = open(&polite, 3000).await;
    calls_are_prompt(&gate, &slow).await;
    calls_are_prompt(&gate, &polite).await;
    other.write_all(&[b' '; 1096]).await.unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "a complete body of spaces is read: {answer}");
    drop(first);
}

/// curl sends headers and body separately, so the refusal may precede the body.
#[tokio::test]
async fn curl_reads_refusals_over_http2() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, [_, polite]) = keyed(&server, json!({})).await;
    for (path, key, status) in
        [("/mcp", "wrong", "401"), ("/nowhere", &polite, "404"), ("/api/agents", "wrong", "401")]
    {
        for round in 0..20 {
            let mut curl = tokio::process::Command::new("curl");
            curl.args(["-sS", "--http2-prior-knowledge", "-o", "/dev/null"]);
            curl.args(["-w", "%{http_code}", "-H", "Content-Type: application/json"]);
            curl.args(["-H", &format!("Authorization: Bearer {key}"), "-d", "{\"jsonrpc\":1}"]);
            let run = curl.arg(format!("http://{}{path}", gate.address)).output().await.unwrap();
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            let shown = String::from_utf8_lossy(&run.stdout).into_owned();
            assert_eq!((shown.as_str(), said.as_str()), (status, ""), "{path}, round {round}");
        }
    }
}

/// Returns the types of the frames of stream 1 received within a time (RFC 9113, section 4.1).
async fn frame_kinds(socket: &mut TcpStream, time: Duration) -> Vec<u8> {
    let (mut bytes, mut kinds) = (Vec::new(), Vec::new());
    while let Ok(Ok(1..)) = tokio::time::timeout(time, socket.read_buf(&mut bytes)).await {}
    let mut rest = &bytes[..];
    while let [a, b, c, kind, _, stream @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if stream[..4] == [0, 0, 0, 1] {
            kinds.push(*kind);
        }
        rest = &rest[9 + length..];
    }
    kinds
}

#[tokio::test]
async fn a_refused_stream_waits_for_its_body_and_not_for_long() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, _) = keyed(&server, json!({})).await;
    let (headers, data, reset) = (1, 0, 3);
    let mut socket = open_http2(&gate, "wrong", 1).await;
    let kinds = frame_kinds(&mut socket, Duration::from_millis(300)).await;
    assert!(kinds.starts_with(&[headers, data]), "{kinds:?}");
    assert!(!kinds.contains(&reset), "the body may come yet: {kinds:?}");
    let kinds = frame_kinds(&mut socket, Duration::from_millis(1500)).await;
    assert_eq!(kinds, [reset]);
}
