//! A test server with predefined responses per connection. It parses just enough HTTP to find the
//! end of a request.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use url::Url;

use crate::Payload;
use crate::address::Policy;
use crate::config::Config;
use crate::connect::Connector;
use crate::pool::Origin;

/// Instead of a response: sends nothing until the client closes.
pub(crate) const HOLD: &str = "hold";

pub(crate) struct Scripted {
    pub(crate) port: u16,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    /// The number of each connection that has ended.
    pub(crate) ended: mpsc::UnboundedReceiver<usize>,
}

/// Serves a connection per script; a connection closes after its last response unless that is
/// [`HOLD`].
pub(crate) async fn serve(scripts: &'static [&'static [&'static str]]) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (end, ended) = mpsc::unbounded_channel();
    let seen = requests.clone();
    tokio::spawn(async move {
        for (number, script) in scripts.iter().enumerate() {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            let end = end.clone();
            tokio::spawn(async move {
                answer(&mut tcp, script, &seen).await;
                drop(tcp);
                let _ = end.send(number);
            });
        }
    });
    Scripted { port, requests, ended }
}

pub(crate) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    script: &[&str],
    seen: &Mutex<Vec<String>>,
) {
    for text in script {
        if *text == HOLD {
            let _ = stream.read(&mut [0; 1]).await;
            return;
        }
        let Some(request) = request(stream).await else {
            return;
        };
        seen.lock().push(request);
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.ok()?;
        if count == 0 {
            return None;
        }
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = match head.split_once("\r\ncontent-length: ") {
            Some((_, rest)) => rest.lines().next().unwrap().parse().unwrap(),
            None => 0,
        };
        if body.len() >= length {
            return Some(text);
        }
    }
}

pub(crate) fn config() -> Config {
    Config {
        connect_timeout: Duration::from_secs(10),
        idle_connections: 4,
        idle_timeout: Duration::from_secs(60),
        ..Config::default()
    }
}

pub(crate) fn origin(port: u16, config: &Config) -> Origin {
    let url = Url::parse(&format!("http://127.0.0.1:{port}/mcp?a=b")).unwrap();
    Origin::new(Arc::new(Connector::new(config).unwrap()), &url, Policy::Operator).unwrap()
}

pub(crate) fn post(origin: &Origin, body: &'static str) -> Request<Payload> {
    Request::post(origin.uri().clone()).body(Bytes::from_static(body.as_bytes()).into()).unwrap()
}
