//! Idle and useless connections: unauthenticated clients do not block others, silent connections
//! time out, and operators have a separate address. Tests use the defaults except for the limit
//! they test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::client::Request;
use crate::rig::gate::{Session, create_key};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

fn call() -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}))
}

fn health() -> Request {
    Request::bare("GET", "/healthz", "")
}

/// Returns a free loopback port, below those that the kernel chooses for other sockets meanwhile.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const BLOCK: u16 = 64;
    // Test processes run side by side: each has a block of ports.
    let block = 10_000 + u16::try_from(std::process::id() % 343).unwrap() * BLOCK;
    for _ in 0..BLOCK {
        let port = block + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {block}–{}", block + BLOCK);
}

async fn silent(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(TcpStream::connect(address).await.unwrap());
    }
    all
}

#[tokio::test]
async fn thousands_of_silent_strangers_keep_nobody_out() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"}}))
            .await;
    let key = format!("Bearer {}", create_key(&gate, "polite").await);
    let by = |request: Request| request.with("Authorization", &key);
    // An authenticated connection, idle since before the flood.
    let mut known = TcpStream::connect(gate.address).await.unwrap();
    let text = String::from_utf8(by(call()).bytes()).unwrap().replace("Connection: close\r\n", "");
    let (mut bytes, mut answered) = ([0; 4096], 0);
    for _ in 0..2 {
        known.write_all(text.as_bytes()).await.unwrap();
        let n = known.read(&mut bytes).await.unwrap();
        answered += usize::from(bytes[..n].starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(answered, 2);
    let mut flood = silent(gate.address, 4500).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(by(call()).send(gate.address).await.code(), 0);
        assert_eq!(health().send(gate.address).await.status, 200);
        assert_eq!(Request::bare("GET", "/readyz", "").send(gate.address).await.status, 200);
    }
    let open = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = by(Request::bare("POST", "/mcp", open.to_string())).send(gate.address).await;
    assert_eq!(opened.status, 200, "{}", opened.text());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // Only the oldest unauthenticated connections were closed.
    let gone = tokio::time::timeout(Duration::from_secs(15), flood[0].read(&mut bytes)).await;
    assert!(matches!(gone, Ok(Ok(0) | Err(_))), "the first stranger is still there");
    known.write_all(text.as_bytes()).await.unwrap();
    let n = known.read(&mut bytes).await.unwrap();
    assert!(bytes[..n].starts_with(b"HTTP/1.1 200"), "a known client was ended");
}

/// `http.connections_per_address` at its limit: only idle connections are evicted.
#[tokio::test]
async fn one_address_cannot_have_every_connection() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(
        json!({"servers": {"a": server.config()}, "http": {"connections_per_address": 2}}),
    )
    .await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let busy = || Request::modern("/mcp", "subscriptions/listen", listen.clone());
    let first = busy().open(gate.address).await;
    // The response proves that this connection was accepted first.
    let mut stranger = TcpStream::connect(gate.address).await.unwrap();
    stranger.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut bytes = [0; 4096];
    let read = stranger.read(&mut bytes).await.unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 200"));
    let second = busy().open(gate.address).await;
    assert_eq!((first.head.status, second.head.status), (200, 200), "the idle one made room");
    let third = busy().open(gate.address).await;
    assert_eq!(
        (third.head.status, third.head.header("retry-after")),
        (503, None),
        "nobody knows when a stream ends"
    );
    let long = call().body(vec![b' '; 300_000]);
    assert_eq!(long.send(gate.address).await.status, 503, "read by who sends first, too");
    until("the log tells of it", async || {
        gate.log().contains("http.connections_per_address").then_some(())
    })
    .await;
    drop(second);
    until("room for one", async || (call().send(gate.address).await.status == 200).then_some(()))
        .await;
}

/// `http.read_timeout` ends a silent connection, a partial header block and a partial TLS
/// handshake, and not early.
#[tokio::test]
async fn silence_ends_in_its_time() {
    let server = Upstream::http(modern(&["t"])).await;
    let plain =
        Gate::start(json!({"servers": {"a": server.config()}, "http": {"read_timeout": 2}})).await;
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let tls = json!({"read_timeout": 2, "tls": {"cert": cert, "key": key}});
    let tls = Gate::launch(json!({"servers": {"a": server.config()}, "http": tls})).await;
    let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let cases: [(&Gate, &[u8]); 5] = [
        (&plain, b""),
        (&plain, b"P"),
        (&plain, b"POST /mcp HTTP/1.1\r\nHost: local"),
        (&tls, b""),
        (&tls, hello),
    ];
    let ends = cases.map(|(gate, sent)| async move {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        let began = Instant::now();
        socket.write_all(sent).await.unwrap();
        let read =
            tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut Vec::new()))
                .await;
        assert!(read.is_ok(), "{sent:?} was never ended");
        let took = began.elapsed();
        assert!(
            took >= Duration::from_secs(2) && took < Duration::from_millis(3600),
            "{sent:?}: {took:?}"
        );
    });
    let [a, b, c, d, e] = ends;
    tokio::join!(a, b, c, d, e);
}

/// `admin.listen`: the operator's endpoints respond while clients hold every connection, and while
/// that address itself is flooded.
#[tokio::test]
async fn operators_have_a_door_of_their_own() {
    let server = Upstream::http(modern(&["t"])).await;
    let port = free_port();
    let gate = Gate::launch(json!({
        "servers": {"a": server.config()}, "http": {"connections": 2, "connections_per_address": 2},
        "admin": {"listen": format!("127.0.0.1:{port}")},
    }))
    .await;
    let admin = SocketAddr::from(([127, 0, 0, 1], port));
    let listen = Request::modern(
        "/mcp",
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    let busy = [listen.open(gate.address).await, listen.open(gate.address).await];
    assert!(busy.iter().all(|stream| stream.head.status == 200));
    let _flood = silent(admin, 500).await;
    let began = Instant::now();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(Request::bare("GET", path, "").send(admin).await.status, 200, "{path}");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let threads: Vec<String> = std::fs::read_dir(format!("/proc/{}/task", gate.pid()))
        .unwrap()
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default())
        .collect();
    assert!(threads.iter().any(|name| name.trim() == "operators"), "{threads:?}");
}

/// Ambiguous framing is rejected, or the connection closed after the response.
#[tokio::test]
async fn a_body_is_framed_in_one_way() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let request = call();
    let text = String::from_utf8(request.bytes()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let head = head.replace("Connection: close\r\n", "");
    let length = head.lines().find(|line| line.starts_with("Content-Length")).unwrap().to_owned();
    let bare = head.replace(&format!("\r\n{length}"), "");
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let cases = [
        (format!("{head}\r\n\r\n{body}"), "200"),
        (format!("{bare}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"), "200"),
        (format!("{bare}\r\ntransfer-encoding: Chunked\r\n\r\n{chunked}"), "200"),
        (format!("{bare}\r\nTransfer-Encoding: chunked, chunked\r\n\r\n{chunked}"), "400"),
        (
            format!(
                "{bare}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"
            ),
            "400",
        ),
        (format!("{bare}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{chunked}"), "400"),
        // The length is ignored, and what follows is no request.
        (format!("{head}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"), "200 once"),
        (
            format!("{bare}\r\nTransfer-Encoding: chunked\r\nCONTENT-LENGTH: 4\r\n\r\n{chunked}"),
            "200 once",
        ),
        (format!("{head}\r\nExpect: 100-Continue\r\n\r\n{body}"), "200"),
        (format!("{head}\r\nExpect: 200-ok\r\n\r\n{body}"), "417"),
        (format!("{head}\r\nExpect: 100-continue\r\nExpect: x\r\n\r\n{body}"), "417"),
    ];
    for (sent, status) in cases {
        let mut socket = TcpStream::connect(gate.address).await.unwrap();
        let _ = socket.write_all(sent.as_bytes()).await;
        let _ = socket.write_all(next.as_bytes()).await;
        let mut answer = Vec::new();
        let read =
            tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{sent}");
        let answer = String::from_utf8_lossy(&answer).replace("HTTP/1.1 100 Continue\r\n\r\n", "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {} ", &status[..3])), "{sent}\n{answer}");
        let answers = answer.matches("HTTP/1.1 ").count();
        let is_closed = matches!(status, "400" | "200 once");
        assert!(!is_closed || answers == 1, "what follows is no request: {sent}\n{answer}");
        assert!(status != "200" || answers == 2, "{sent}\n{answer}");
    }
}

/// Replaces two gateways in turn behind a balancer that checks `/readyz`. Clients without retries,
/// on new and on kept connections, in both eras, get a response to every request.
#[tokio::test]
async fn a_rolling_replacement_refuses_nobody() {
    let server = Upstream::http(modern(&["t"])).await;
    let config = || json!({"servers": {"a": server.config()}, "http": {"drain": 3}, "secret": "1f0c9e7ab35d2468fd1ac0e5b7943628"});
    let mut old = Gate::start(config()).await;
    let new = Gate::start(config()).await;
    let balancer = Balancer::start(vec![old.address, new.address]).await;
    let session: Session<'_> = new.session("/mcp", "2025-11-25").await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stream =
        Request::modern("/mcp", "subscriptions/listen", listen).open(old.address).await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let (done, old_address) = (std::cell::Cell::new(false), old.address);
    let fresh = async {
        let mut answered = 0;
        while !done.get() {
            let answer = call().send(balancer).await;
            assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
            answered += 1;
        }
        answered
    };
    let kept = async {
        let text = String::from_utf8(call().bytes()).unwrap().replace("Connection: close\r\n", "");
        let (mut answered, mut moved, mut socket) =
            (0, 0, TcpStream::connect(old_address).await.unwrap());
        while !done.get() {
            socket.write_all(text.as_bytes()).await.unwrap();
            let answer = read_answer(&mut socket).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "after {answered}: {answer:?}");
            answered += 1;
            if answer.to_ascii_lowercase().contains("connection: close") {
                socket = TcpStream::connect(balancer).await.unwrap();
                moved += 1;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        (answered, moved)
    };
    let legacy = async {
        while !done.get() {
            assert_eq!(session.call("a__t").await.code(), 0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let replace = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        old.terminate();
        until("it is not ready", async || {
            (Request::bare("GET", "/readyz", "").send(old.address).await.status == 503)
                .then_some(())
        })
        .await;
        assert_eq!(call().send(old.address).await.code(), 0, "new connections are still answered");
        let last = stream.next().await.unwrap();
        assert_eq!(last["result"]["resultType"], "complete", "{last}");
        assert_eq!(old.ended().await, Some(0));
        tokio::time::sleep(Duration::from_millis(500)).await;
        done.set(true);
    };
    let (fresh, (kept, moved), (), ()) = tokio::join!(fresh, kept, legacy, replace);
    assert!(fresh > 10 && kept > 10 && moved >= 1, "{fresh} {kept} {moved}");
}

/// SIGINT ends an idle gateway without draining: a terminal has no load balancer.
#[tokio::test]
async fn an_interrupt_does_not_drain() {
    let server = Upstream::http(modern(&["t"])).await;
    for second in [false, true] {
        let mut gate =
            Gate::start(json!({"servers": {"a": server.config()}, "http": {"drain": 60}})).await;
        let began = Instant::now();
        if second {
            gate.terminate();
            until("it drains", async || gate.log().contains("draining").then_some(())).await;
        }
        crate::rig::signal(gate.pid(), rustix::process::Signal::INT);
        assert_eq!(gate.ended().await, Some(0));
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }
}

/// Reads a response with a `Content-Length`.
async fn read_answer(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase();
            let length = length
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match socket.read(&mut bytes).await {
            Ok(n) if n > 0 => all.extend_from_slice(&bytes[..n]),
            other => panic!("the connection ended ({other:?}): {text:?}"),
        }
    }
}

/// A TCP balancer over the ready gateways, in turn.
pub struct Balancer;

/// The gateways that a balancer checks; the set may change.
pub type Gateways = std::sync::Arc<std::sync::Mutex<Vec<SocketAddr>>>;

impl Balancer {
    async fn start(gateways: Vec<SocketAddr>) -> SocketAddr {
        Self::start_for(std::sync::Arc::new(std::sync::Mutex::new(gateways))).await
    }

    pub async fn start_for(gateways: Gateways) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let all = gateways.lock().unwrap().clone();
        let ready = std::sync::Arc::new(std::sync::Mutex::new(all));
        let shown = std::sync::Arc::clone(&ready);
        tokio::spawn(async move {
            loop {
                let mut now = Vec::new();
                let gateways = gateways.lock().unwrap().clone();
                for gateway in gateways {
                    if is_ready(gateway).await {
                        now.push(gateway);
                    }
                }
                *shown.lock().unwrap() = now;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        tokio::spawn(async move {
            for turn in 0_usize.. {
                let Ok((mut client, _)) = listener.accept().await else { return };
                let to = {
                    let ready = ready.lock().unwrap();
                    ready[turn % ready.len()]
                };
                tokio::spawn(async move {
                    if let Ok(mut gateway) = TcpStream::connect(to).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
                    }
                });
            }
        });
        address
    }
}

async fn is_ready(gateway: SocketAddr) -> bool {
    let Ok(mut socket) = TcpStream::connect(gateway).await else { return false };
    let mut answer = Vec::new();
    let _ = socket.write_all(&Request::bare("GET", "/readyz", "").bytes()).await;
    let _ = socket.read_to_end(&mut answer).await;
    answer.starts_with(b"HTTP/1.1 200")
}

/// A 503 of the listener names the exceeded limit and when to retry.
#[tokio::test]
async fn a_refusal_says_which_bound_it_was() {
    let server = Upstream::http(|heard| match heard.text.len() {
        0..500_000 => modern(&["t"])(heard),
        _ => crate::rig::Say::Nothing,
    })
    .await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "limits": {"bytes_in_flight": "1MiB"}, "http": {"body_bytes": "1MiB"},
    }))
    .await;
    let long = |bytes: usize| {
        let arguments = json!({"x": "x".repeat(bytes)});
        Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": arguments}))
    };
    // A complete body of a slow call: an incomplete body would be evicted.
    let mut holder = TcpStream::connect(gate.address).await.unwrap();
    holder.write_all(&long(1_000_000).bytes()).await.unwrap();
    until("the memory is held", async || (server.count("tools/call") > 0).then_some(())).await;
    let refused = long(100_000).send(gate.address).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    let body: Value = refused.json();
    assert_eq!(body["error"]["data"]["reason"], "bytes_in_flight", "{body}");
    assert_eq!(refused.header("retry-after"), Some("1"), "by then the largest had to go");
}
