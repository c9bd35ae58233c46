//! Clients that half-close their connection after the request: waiting clients get their response,
//! and disconnected clients are cancelled. In both eras, with and without TLS, for plain responses
//! and for event streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

/// Limit on a call's running time after its client disconnects; the gateway takes about 0.3 s.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
const INTERIM: &str = "HTTP/1.1 100 Continue\r\n\r\n";

trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// A gateway with or without TLS.
struct Door {
    gate: Gate,
    tls: Option<TlsConnector>,
    _folder: TempDir,
}

impl Door {
    async fn open(secure: bool, mut config: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        if secure {
            config["http"] = json!({"tls": {"cert": cert, "key": key}});
        }
        let gate = Gate::launch(config).await;
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let tls = secure.then(|| TlsConnector::from(Arc::new(client)));
        Self { gate, tls, _folder: folder }
    }

    async fn connect(&self) -> Box<dyn Socket> {
        let socket = TcpStream::connect(self.gate.address).await.unwrap();
        match &self.tls {
            None => Box::new(socket),
            Some(tls) => {
                let name = ServerName::try_from("localhost").unwrap();
                Box::new(tls.connect(name, socket).await.unwrap())
            }
        }
    }

    /// Sends a request and half-closes the connection; returns the whole response.
    async fn ask_and_shut_down(&self, request: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(request).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(NOTICE_TIMEOUT * 5, socket.read_to_end(&mut answer)).await;
        read.expect("an end").unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn session(&self) -> String {
        let open = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let answer =
            self.ask_and_shut_down(&Request::bare("POST", "/mcp", open.to_string()).bytes()).await;
        let header = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        header.unwrap_or_else(|| panic!("no session: {answer}")).trim().to_owned()
    }

    /// Returns a call in both eras.
    async fn calls(&self, params: &Value) -> [Vec<u8>; 2] {
        let session = self.session().await;
        let legacy = Request::legacy("/mcp", &session, 5, "tools/call", params);
        [Request::modern("/mcp", "tools/call", params.clone()).bytes(), legacy.bytes()]
    }
}

/// The call takes longer than the detection of a disconnected client.
#[tokio::test]
async fn whoever_waits_for_an_answer_gets_it() {
    for secure in [false, true] {
        let door = Door::open(secure, json!({"builtin": {"example": true}})).await;
        let arguments = json!({"n": 8, "pause_ms": 150});
        let plain = json!({"name": "example__count", "arguments": arguments});
        let stream = json!({"name": "example__count", "arguments": arguments, "_meta": {"progressToken": "p"}});
        let (plain, stream) = tokio::join!(door.calls(&plain), door.calls(&stream));
        let answers = plain.iter().chain(&stream).map(|call| door.ask_and_shut_down(call));
        let mut all = Vec::new();
        for answer in answers.collect::<Vec<_>>() {
            all.push(answer);
        }
        let [a, b, c, d] = all.try_into().unwrap_or_else(|_| panic!("four calls"));
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        for (answer, streams) in [(a, false), (b, false), (c, true), (d, true)] {
            let final_answer = answer.replace(INTERIM, "");
            assert!(final_answer.starts_with("HTTP/1.1 200 OK\r\n"), "{secure}: {answer}");
            assert!(final_answer.contains(r#""counted":8"#), "{secure}: {answer}");
            assert_eq!(final_answer.contains("text/event-stream"), streams, "{secure}: {answer}");
            assert_eq!(
                final_answer.matches("notifications/progress").count() > 1,
                streams,
                "{secure}: {answer}"
            );
        }
        // Immediate responses of the gateway itself.
        for path in ["/healthz", "/metrics"] {
            let answer = door.ask_and_shut_down(&Request::bare("GET", path, "").bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{secure} {path}: {answer}");
        }
    }
}

/// Answers as a server with a tool that never responds, and a tool that only reports progress.
fn endless(heard: &HeardMessage) -> Say {
    match heard.body["params"]["name"].as_str() {
        Some("silent") => Say::Nothing,
        Some("begun") => {
            let token = &heard.body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1, "total": 2});
            Say::Json(
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
        }
        _ => modern(&["silent", "begun"])(heard),
    }
}

/// Closing a connection sends the same end of stream as half-closing it.
#[tokio::test]
async fn whoever_has_left_is_cancelled_soon() {
    for secure in [false, true] {
        let server = Upstream::lines(endless).await;
        let door = Door::open(secure, json!({"servers": {"a": server.config()}})).await;
        for (round, name) in ["silent", "begun"].into_iter().enumerate() {
            let params = json!({"name": format!("a__{name}"), "arguments": {}, "_meta": {"progressToken": "p"}});
            let mut socket = door.connect().await;
            socket.write_all(&Request::modern("/mcp", "tools/call", params).bytes()).await.unwrap();
            until("the call arrived", async || {
                (server.count("tools/call") == round + 1).then_some(())
            })
            .await;
            if name == "begun" {
                let mut begun = String::new();
                while !begun.contains("notifications/progress") {
                    let mut bytes = [0; 4096];
                    let n = socket.read(&mut bytes).await.unwrap();
                    begun.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
                }
            }
            socket.shutdown().await.unwrap();
            drop(socket);
            let left = Instant::now();
            until("the call is cancelled", async || {
                (server.count("notifications/cancelled") == round + 1).then_some(())
            })
            .await;
            assert!(left.elapsed() < NOTICE_TIMEOUT, "{secure} {name}: {:?}", left.elapsed());
        }
    }
}
