//! A scripted MCP server, well-behaved or not. It listens on a free loopback port, over HTTP or
//! with one JSON message per line (a shell child connects its stdio to the port), and records every
//! message.

mod bulk;
mod http;
mod lines;
mod script;
mod servers;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::http::serve_http;
use lines::talk;
use script::Script;
pub use script::{HeardMessage, Say};
pub use servers::{legacy, modern, modern_with, tool};

pub struct Upstream {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<HeardMessage>>>,
    script: Script,
    lines: bool,
    task: Option<JoinHandle<()>>,
}

impl Upstream {
    pub async fn http(script: impl Fn(&HeardMessage) -> Say + Send + Sync + 'static) -> Self {
        let script = move |heard: &HeardMessage| match heard.verb.as_str() {
            "POST" => script(heard),
            _ => Say::Status(405, Vec::new(), Value::Null),
        };
        Self::start(Arc::new(script), false).await
    }

    /// Starts an HTTP upstream that passes GET and DELETE to the script too.
    pub async fn verbs(script: impl Fn(&HeardMessage) -> Say + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(script), false).await
    }

    pub async fn lines(script: impl Fn(&HeardMessage) -> Say + Send + Sync + 'static) -> Self {
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
        let script = Arc::clone(&self.script);
        let heard = Arc::clone(&self.heard);
        let lines = self.lines;
        self.task = Some(tokio::spawn(async move {
            // Connections end with the listener, like those of a killed process.
            let mut all = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                let heard = Arc::clone(&heard);
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

    /// Returns its entry under `servers`.
    pub fn config(&self) -> Value {
        if !self.lines {
            return json!({"url": format!("http://{}/mcp", self.address)});
        }
        let port = self.address.port();
        let bridge = format!("exec 4<&0 3<>/dev/tcp/127.0.0.1/{port}; cat <&4 >&3 & exec cat <&3");
        json!({"command": "bash", "args": ["-c", bridge]})
    }

    /// Returns its entry with further settings.
    pub fn with(&self, more: Value) -> Value {
        let mut config = self.config();
        if let Value::Object(more) = more {
            for (key, value) in more {
                config[key] = value;
            }
        }
        config
    }

    pub fn heard(&self) -> Vec<HeardMessage> {
        self.heard.lock().unwrap().clone()
    }

    pub fn heard_of(&self, method: &str) -> Vec<HeardMessage> {
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
