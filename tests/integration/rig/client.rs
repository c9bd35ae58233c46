//! A client over plain TCP: one connection for each exchange, with exactly the bytes of the test.
//! It never retries, and reads to the end or event by event.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::EVENT_TIMEOUT;

pub const MODERN: &str = "2026-07-28";

/// A complete HTTP response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON, or the last message of an event stream.
    pub fn json(&self) -> Value {
        if self.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
            return self.events().pop().unwrap_or_default();
        }
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("not JSON ({e}): {} {}", self.status, self.text()))
    }

    /// Returns the messages of an event stream.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .filter(|d| !d.is_empty());
        data.map(|d| serde_json::from_str(d).unwrap()).collect()
    }

    /// Returns the code of the JSON-RPC error, or 0.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or(0)
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        let json = self.json();
        assert!(json.get("result").is_some(), "no result: {} {json}", self.status);
        json["result"].clone()
    }
}

/// A response that is still being received.
pub struct Stream {
    socket: TcpStream,
    pub head: Answer,
    raw: Vec<u8>,
    plain: Vec<u8>,
    chunked: bool,
    ended: bool,
}

impl Stream {
    pub async fn open(address: SocketAddr, request: &[u8]) -> Self {
        Self::try_open(address, request).await.expect("connect")
    }

    /// Returns `None` if the connection is refused, so that nothing was sent.
    pub async fn try_open(address: SocketAddr, request: &[u8]) -> Option<Self> {
        let mut socket = TcpStream::connect(address).await.ok()?;
        // The gateway may reject a request and close before it has read everything.
        let _ = socket.write_all(request).await;
        let mut stream = Self {
            socket,
            head: Answer { status: 0, headers: Vec::new(), body: Vec::new() },
            raw: Vec::new(),
            plain: Vec::new(),
            chunked: false,
            ended: false,
        };
        tokio::time::timeout(EVENT_TIMEOUT * 3, stream.read_head())
            .await
            .expect("no answer in time");
        Some(stream)
    }

    async fn read_head(&mut self) {
        loop {
            if let Some(end) = self.raw.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.raw[..end]).into_owned();
                self.raw.drain(..end + 4);
                let mut lines = head.split("\r\n");
                let status =
                    lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok());
                self.head.status = status.unwrap_or(0);
                let pair = |line: &str| {
                    line.split_once(':').map(|(n, v)| (n.to_owned(), v.trim().to_owned()))
                };
                self.head.headers = lines.filter_map(pair).collect();
                self.chunked =
                    self.head.header("transfer-encoding").is_some_and(|v| v.contains("chunked"));
                self.unchunk();
                return;
            }
            if !self.fill().await {
                return;
            }
        }
    }

    async fn fill(&mut self) -> bool {
        let mut buffer = vec![0; 65536];
        match self.socket.read(&mut buffer).await {
            Ok(n) if n > 0 => {
                self.raw.extend_from_slice(&buffer[..n]);
                true
            }
            _ => {
                self.ended = true;
                false
            }
        }
    }

    fn unchunk(&mut self) {
        if !self.chunked {
            self.plain.append(&mut self.raw);
            let length = self.head.header("content-length").and_then(|v| v.parse::<usize>().ok());
            self.ended |= length.is_some_and(|length| self.plain.len() >= length);
            return;
        }
        while let Some(line) = self.raw.windows(2).position(|w| w == b"\r\n") {
            let size = std::str::from_utf8(&self.raw[..line])
                .ok()
                .and_then(|s| usize::from_str_radix(s.trim(), 16).ok());
            let size = size.expect("a chunk size");
            if self.raw.len() < line + 2 + size + 2 {
                return;
            }
            self.plain.extend_from_slice(&self.raw[line + 2..line + 2 + size]);
            self.raw.drain(..line + 2 + size + 2);
            if size == 0 {
                self.ended = true;
                return;
            }
        }
    }

    /// Returns the next message of an event stream, or `None` at its end. Keep-alive comments do
    /// not extend the timeout.
    pub async fn next(&mut self) -> Option<Value> {
        let mut comments = 0;
        let message = async {
            loop {
                let block = self.block().await?;
                let data: Vec<&str> =
                    block.lines().filter_map(|l| l.strip_prefix("data:")).map(str::trim).collect();
                if data.iter().any(|d| !d.is_empty()) {
                    return Some(serde_json::from_str(&data.join("\n")).unwrap());
                }
                comments += 1;
            }
        };
        let message = tokio::time::timeout(EVENT_TIMEOUT * 3, message).await;
        message.unwrap_or_else(|_| {
            panic!("no message on the stream in time, only {comments} comments")
        })
    }

    /// Returns the next event, comments included, as received.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.plain.windows(2).position(|w| w == b"\n\n") {
                let block: Vec<u8> = self.plain.drain(..end + 2).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            if self.ended {
                return None;
            }
            tokio::time::timeout(EVENT_TIMEOUT * 3, self.fill()).await.expect("no event in time");
            self.unchunk();
        }
    }

    /// Reads until the connection ends or breaks; returns the number of bytes.
    pub async fn rest(mut self) -> usize {
        let all = async { while self.fill().await {} };
        tokio::time::timeout(EVENT_TIMEOUT * 3, all).await.expect("the connection did not end");
        self.plain.len() + self.raw.len()
    }

    /// Returns whether the connection is open without data to read.
    pub async fn is_open(&mut self) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(200), self.fill()).await.is_err()
    }

    /// Reads the response to its end.
    pub async fn whole(mut self) -> Answer {
        let all = async {
            while !self.ended {
                self.fill().await;
                self.unchunk();
            }
        };
        tokio::time::timeout(EVENT_TIMEOUT * 3, all).await.expect("the answer did not end");
        self.head.body = self.plain;
        self.head
    }
}

/// An HTTP request with headers that a test may add, replace and remove.
#[derive(Clone)]
pub struct Request {
    pub verb: &'static str,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Creates a request with only the headers that HTTP needs.
    pub fn bare(verb: &'static str, path: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = [("Host", "127.0.0.1"), ("Accept", "application/json, text/event-stream")];
        let mut headers: Vec<_> = headers.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        if verb == "POST" || verb == "PATCH" || verb == "PUT" {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        Self { verb, path: path.into(), headers, body: body.into() }
    }

    /// Creates a valid modern request with id 1.
    pub fn modern(path: &str, method: &str, params: Value) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": with_meta(params.clone())});
        let mut request = Self::bare("POST", path, body.to_string());
        request = request.with("MCP-Protocol-Version", MODERN).with("Mcp-Method", method);
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return request,
        };
        match params[key].as_str() {
            Some(name) => request.with("Mcp-Name", name),
            None => request,
        }
    }

    /// Creates a request in a legacy session.
    pub fn legacy(path: &str, session: &str, id: i64, method: &str, params: &Value) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Self::bare("POST", path, body.to_string()).with("Mcp-Session-Id", session)
    }

    /// Sets a header, replacing any in another case.
    pub fn with(self, name: &str, value: &str) -> Self {
        let mut new = self.without(name);
        new.headers.push((name.into(), value.into()));
        new
    }

    /// Adds a header, even if it is already present.
    pub fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.verb, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.verb == "POST" || !self.body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }

    pub async fn open(&self, address: SocketAddr) -> Stream {
        Stream::open(address, &self.bytes()).await
    }

    pub async fn send(&self, address: SocketAddr) -> Answer {
        self.open(address).await.whole().await
    }
}

/// Adds the `_meta` of modern requests to `params`; existing members stay.
pub fn with_meta(params: Value) -> Value {
    let mut params = match params {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(Value::Object(own)) = params.remove("_meta") {
        for (key, value) in own {
            meta[key] = value;
        }
    }
    params.insert("_meta".into(), meta);
    Value::Object(params)
}
