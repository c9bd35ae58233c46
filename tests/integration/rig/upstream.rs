//! An MCP server that says what a script tells it to, well or badly. It listens on a free loopback
//! port, over HTTP or one JSON message a line (a shell child connects its stdio to that), and
//! records everything that it hears.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One message from the gateway.
#[derive(Clone, Debug)]
pub struct Heard {
    /// `POST`, `GET`, `DELETE`, or `LINE` over stdio.
    pub verb: String,
    pub headers: Vec<(String, String)>,
    pub text: String,
    pub body: Value,
}

impl Heard {
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// A response with this id.
    pub fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    pub fn error(&self, code: i64, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": {"code": code, "message": message}})
    }

    pub fn text_result(&self, text: &str) -> Say {
        Say::Json(
            self.result(
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
            ),
        )
    }
}

/// What the upstream says to one message.
#[derive(Clone)]
pub enum Say {
    /// A JSON message.
    Json(Value),
    /// The same after a while.
    Late(Duration, Value),
    /// The same with another status and further headers.
    Status(u16, Vec<(&'static str, String)>, Value),
    /// An event stream with this text, which then ends.
    Sse(String),
    /// An event stream that starts with this text and stays open.
    Stream(String),
    /// These bytes as a body of this type, or as a line.
    Text(&'static str, Vec<u8>),
    /// These bytes, then the connection is closed.
    Raw(Vec<u8>),
    /// A JSON body: its start, so many bytes `x`, and its end. Over lines, one line.
    Long(Vec<u8>, usize, &'static str),
    /// This byte, without end, after these.
    Endless(Vec<u8>, u8),
    /// The start of a body of this type, or of a line, and no more while the connection stays open.
    Stalled(&'static str, Arc<Vec<u8>>),
    /// Nothing, while the connection stays open.
    Nothing,
    /// Nothing, and the connection is closed.
    Close,
}

impl Say {
    /// Waits for as long as it is to be late.
    async fn in_time(self) -> Self {
        if let Self::Late(pause, _) = &self {
            tokio::time::sleep(*pause).await;
        }
        self
    }
}

type Script = Arc<dyn Fn(&Heard) -> Say + Send + Sync>;

pub struct Upstream {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    script: Script,
    lines: bool,
    task: Option<JoinHandle<()>>,
}

impl Upstream {
    pub async fn http(script: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Self {
        let script = move |heard: &Heard| match heard.verb.as_str() {
            "POST" => script(heard),
            _ => Say::Status(405, Vec::new(), Value::Null),
        };
        Self::start(Arc::new(script), false).await
    }

    /// One whose script hears GET and DELETE too.
    pub async fn verbs(script: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(script), false).await
    }

    pub async fn lines(script: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(script), true).await
    }

    async fn start(script: Script, lines: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut new = Self { address, heard: Arc::default(), script, lines, task: None };
        new.serve(listener);
        new
    }

    fn serve(&mut self, listener: TcpListener) {
        let (script, heard, lines) =
            (Arc::clone(&self.script), Arc::clone(&self.heard), self.lines);
        self.task = Some(tokio::spawn(async move {
            // Connections end with the listener, as those of a killed process do.
            let mut all = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (script, heard) = (Arc::clone(&script), Arc::clone(&heard));
                all.spawn(async move {
                    let done = if lines {
                        talk(socket, script, heard).await
                    } else {
                        serve_http(socket, script, heard).await
                    };
                    done.unwrap_or_default();
                });
            }
        }));
    }

    /// Stops listening and breaks every connection.
    pub async fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Listens again at the same address.
    pub async fn restart(&mut self) {
        let listener = super::until("the port is free again", async || {
            TcpListener::bind(self.address).await.ok()
        })
        .await;
        self.serve(listener);
    }

    /// Its entry under `servers`.
    pub fn config(&self) -> Value {
        if !self.lines {
            return json!({"url": format!("http://{}/mcp", self.address)});
        }
        let port = self.address.port();
        let bridge = format!("exec 4<&0 3<>/dev/tcp/127.0.0.1/{port}; cat <&4 >&3 & exec cat <&3");
        json!({"command": "bash", "args": ["-c", bridge]})
    }

    /// Its entry with further settings.
    pub fn with(&self, more: Value) -> Value {
        let mut config = self.config();
        if let Value::Object(more) = more {
            for (key, value) in more {
                config[key] = value;
            }
        }
        config
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    pub fn heard_of(&self, method: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|h| h.method() == method).collect()
    }

    pub fn count(&self, method: &str) -> usize {
        self.heard_of(method).len()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

async fn serve_http(
    socket: TcpStream,
    script: Script,
    all: Arc<Mutex<Vec<Heard>>>,
) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None => break,
            }
        }
        let length = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("content-length"));
        let mut body = vec![0; length.and_then(|(_, v)| v.parse().ok()).unwrap_or(0)];
        socket.read_exact(&mut body).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let body = serde_json::from_str(&text).unwrap_or_default();
        let heard = Heard { verb, headers, text, body };
        all.lock().unwrap().push(heard.clone());
        let say = script(&heard).in_time().await;
        let json = "application/json";
        let bytes = match say {
            Say::Json(Value::Null) => {
                b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec()
            }
            Say::Json(value) => http(200, json, &[], value.to_string().as_bytes()),
            Say::Late(_, value) => http(200, json, &[], value.to_string().as_bytes()),
            Say::Status(status, more, Value::Null) => http(status, json, &more, b""),
            Say::Status(status, more, value) => {
                http(status, json, &more, value.to_string().as_bytes())
            }
            Say::Text(kind, body) => http(200, kind, &[], &body),
            Say::Sse(text) => http(200, "text/event-stream", &[], text.as_bytes()),
            Say::Raw(bytes) => {
                socket.write_all(&bytes).await?;
                return socket.shutdown().await;
            }
            Say::Long(start, count, end) => {
                let length = start.len() + count + end.len();
                socket.write_all(&long_head(length)).await?;
                write_long(&mut socket, &start, count, end).await?;
                continue;
            }
            Say::Endless(start, byte) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
                socket.write_all(&[head.as_bytes(), &start].concat()).await?;
                return forever(&mut socket, byte).await;
            }
            Say::Stream(start) => {
                return stall(&mut socket, "text/event-stream", start.as_bytes()).await;
            }
            Say::Stalled(kind, start) => return stall(&mut socket, kind, &start).await,
            Say::Nothing => return socket.read_to_end(&mut Vec::new()).await.map(drop),
            Say::Close => return Ok(()),
        };
        socket.write_all(&bytes).await?;
    }
}

fn long_head(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
        .into_bytes()
}

fn http(status: u16, kind: &str, more: &[(&'static str, String)], body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in more {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

async fn talk(
    socket: TcpStream,
    script: Script,
    all: Arc<Mutex<Vec<Heard>>>,
) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let mut text = String::new();
        if socket.read_line(&mut text).await? == 0 {
            return Ok(());
        }
        let body = serde_json::from_str(&text).unwrap_or_default();
        let heard = Heard { verb: "LINE".into(), headers: Vec::new(), text, body };
        all.lock().unwrap().push(heard.clone());
        match script(&heard).in_time().await {
            Say::Json(Value::Null) | Say::Nothing => {}
            Say::Json(value) | Say::Late(_, value) | Say::Status(_, _, value) => {
                socket.write_all(format!("{value}\n").as_bytes()).await?
            }
            Say::Text(_, text) => socket.write_all(&[&text[..], b"\n"].concat()).await?,
            Say::Sse(_) | Say::Stream(_) => {}
            Say::Raw(bytes) => {
                socket.write_all(&bytes).await?;
                return socket.shutdown().await;
            }
            Say::Long(start, count, end) => {
                write_long(&mut socket, &start, count, end).await?;
                socket.write_all(b"\n").await?;
            }
            Say::Endless(start, byte) => {
                socket.write_all(&start).await?;
                return forever(&mut socket, byte).await;
            }
            Say::Stalled(_, start) => socket.write_all(&start).await?,
            Say::Close => return Ok(()),
        }
    }
}

/// The start of a body, and no more until the other side ends the connection.
async fn stall(socket: &mut BufReader<TcpStream>, kind: &str, start: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(start).await?;
    socket.read_to_end(&mut Vec::new()).await.map(drop)
}

async fn write_long(
    socket: &mut BufReader<TcpStream>,
    start: &[u8],
    count: usize,
    end: &str,
) -> std::io::Result<()> {
    let block = vec![b'x'; 65536];
    socket.write_all(start).await?;
    let mut left = count;
    while left > 0 {
        let part = &block[..left.min(block.len())];
        socket.write_all(part).await?;
        left -= part.len();
    }
    socket.write_all(end.as_bytes()).await
}

/// Up to a gigabyte: who reads more of it than it wants to is wrong.
async fn forever(socket: &mut BufReader<TcpStream>, byte: u8) -> std::io::Result<()> {
    let block = vec![byte; 65536];
    for _ in 0..16_384 {
        socket.write_all(&block).await?;
    }
    Ok(())
}

/// A tool without arguments.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

/// A well-behaved modern server with these tools; each answers with its own name.
pub fn modern(tools: &[&str]) -> impl Fn(&Heard) -> Say + Send + Sync + use<> {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    modern_with(tools)
}

pub fn modern_with(tools: Vec<Value>) -> impl Fn(&Heard) -> Say + Send + Sync {
    move |heard| {
        match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
        }))),
        "tools/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
        }))),
        "tools/call" => heard.text_result(heard.body["params"]["name"].as_str().unwrap_or_default()),
        method if method.starts_with("notifications/") => Say::Json(Value::Null),
        _ => Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
    }
    }
}

/// A well-behaved legacy server with a session.
pub fn legacy(
    version: &'static str,
    tools: &[&str],
) -> impl Fn(&Heard) -> Say + Send + Sync + use<> {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    move |heard| {
        match heard.method() {
        "initialize" => Say::Status(200, vec![("mcp-session-id", "abc".into())], heard.result(json!({
            "protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"},
        }))),
        "tools/list" => Say::Json(heard.result(json!({"tools": tools}))),
        "tools/call" => {
            let name = heard.body["params"]["name"].as_str().unwrap_or_default();
            Say::Json(heard.result(json!({"content": [{"type": "text", "text": name}]})))
        }
        "ping" => Say::Json(heard.result(json!({}))),
        method if method.starts_with("notifications/") || method.is_empty() => Say::Json(Value::Null),
        _ => Say::Status(400, Vec::new(), heard.error(-32000, "no session")),
    }
    }
}
