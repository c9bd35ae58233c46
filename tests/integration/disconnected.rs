//! Modern calls of clients that close their connection are cancelled, with and without TLS, before
//! the response and within an event stream.

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

/// Limit on a call's running time after its client disconnects.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

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
