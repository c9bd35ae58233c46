//! The gateway as a child process, with its own configuration file in a temporary folder. It ends
//! with the test.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Answer, Request, Stream};
use super::{children, signal, until};

pub struct Gate {
    pub address: SocketAddr,
    pub folder: TempDir,
    child: Child,
}

/// Returns the path of a program built by the workspace.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of this test");
    let path = own.parent().and_then(Path::parent).expect("a target folder").join(name);
    assert!(
        path.exists(),
        "{} is missing; build it with `cargo build --workspace`, or with `tests/support/build`",
        path.display()
    );
    path
}

/// Returns the configuration of a fixture server over stdio.
pub fn fixture(options: &[&str]) -> Value {
    let args: Vec<&str> = ["--stdio"].iter().chain(options).copied().collect();
    json!({"command": program("fixture-server"), "args": args})
}

/// Returns `lockgate` as a command without inherited settings in its environment.
pub fn command() -> Command {
    client_command("lockgate")
}

/// Returns a program as a command without inherited settings in its environment.
pub fn client_command(name: &str) -> Command {
    command_of(Command::new(program(name)))
}

fn command_of(mut command: Command) -> Command {
    let ours = |name: &str| name.starts_with("LOCKGATE_") || name.starts_with("MCP_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
    command
}

/// Creates a key in the gateway's keys file, and waits until the gateway accepts it.
pub async fn create_key(gate: &Gate, name: &str) -> String {
    let file = gate.folder.path().join("keys.yaml");
    let made =
        command().args(["keys", "create", name, "--json", "--file"]).arg(file).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let key = made["key"].as_str().unwrap().to_owned();
    until("the key is taken over", async || {
        let list = Request::modern("/mcp", "tools/list", json!({}))
            .with("Authorization", &format!("Bearer {key}"));
        (list.send(gate.address).await.status != 401).then_some(())
    })
    .await;
    key
}

/// Returns a configuration without the gateway's own tools, merged with `more`.
pub fn config(more: Value) -> Value {
    let mut all = json!({"builtin": {"system": false, "example": false}, "log": {"level": "info"}});
    if let Value::Object(more) = more {
        for (key, value) in more {
            all[key] = value;
        }
    }
    all
}

impl Gate {
    /// Starts the gateway and waits until it listens, before its servers are connected.
    pub async fn launch(more: Value) -> Self {
        Self::launch_with(more, &[]).await
    }

    /// Starts the gateway with these environment variables.
    pub async fn launch_with(more: Value, variables: &[(&str, &str)]) -> Self {
        let mut command = command();
        command.envs(variables.iter().copied()).stdout(Stdio::null());
        Self::begin(more, command).await
    }

    /// Starts the gateway with another standard output.
    pub async fn launch_onto(more: Value, out: Stdio) -> Self {
        let mut command = command();
        command.stdout(out);
        Self::begin(more, command).await
    }

    /// Starts the gateway with SIGXFSZ ignored: exceeding a file size limit is then a write error,
    /// like a full disk, and does not end the process.
    pub async fn launch_bounded(more: Value) -> Self {
        let mut command = command_of(Command::new("bash"));
        command
            .args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\""])
            .arg(program("lockgate"))
            .stdout(Stdio::null());
        Self::begin(more, command).await
    }

    async fn begin(more: Value, mut command: Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lockgate.json");
        let more_drain = more["http"]["drain"].clone();
        let listen = more["listen"].as_str().unwrap_or("127.0.0.1:0").to_owned();
        std::fs::write(&file, config(more).to_string()).expect("the configuration");
        let log = folder.path().join("log");
        let is_set = command.get_envs().any(|(name, _)| name == "LOCKGATE_HTTP__DRAIN");
        if more_drain.is_null() && !is_set {
            // Tests have no load balancer to drain clients to, so the default is no drain.
            command.env("LOCKGATE_HTTP__DRAIN", "0");
        }
        let child = command
            .args(["serve", "--listen", &listen, "--config"])
            .arg(&file)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(File::create(&log).expect("the log"))
            .spawn()
            .expect("lockgate starts");
        let mut gate = Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), folder, child };
        gate.address = until("lockgate listens", async || {
            let text = gate.log();
            if let Ok(Some(exit)) = gate.child.try_wait() {
                panic!("lockgate ended ({exit}):\n{text}");
            }
            let after = text.split_once(" listens on ")?.1.split_once("://")?.1;
            after.split_whitespace().next()?.parse().ok()
        })
        .await;
        gate
    }

    /// Starts the gateway and waits until it is ready.
    pub async fn start(more: Value) -> Self {
        let gate = Self::launch(more).await;
        gate.ready().await;
        gate
    }

    pub async fn ready(&self) {
        until("lockgate is ready", async || {
            (Request::bare("GET", "/readyz", "").send(self.address).await.status == 200)
                .then_some(())
        })
        .await;
    }

    /// Replaces the configuration file.
    pub fn configure(&self, more: Value) {
        self.write(&config(more).to_string());
    }

    pub fn write(&self, text: &str) {
        let (new, file) =
            (self.folder.path().join("new"), self.folder.path().join("lockgate.json"));
        std::fs::write(&new, text).expect("the configuration");
        std::fs::rename(new, file).expect("the configuration");
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its server processes.
    pub fn children(&self) -> Vec<u32> {
        children(self.pid())
    }

    pub fn terminate(&self) {
        signal(self.pid(), rustix::process::Signal::TERM);
    }

    /// Waits for the process to end; returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        until("lockgate ends", async || self.child.try_wait().ok().flatten()).await.code()
    }

    pub async fn modern(&self, path: &str, method: &str, params: Value) -> Answer {
        Request::modern(path, method, params).send(self.address).await
    }

    /// Calls a tool at `/mcp` in the modern era.
    pub async fn call(&self, tool: &str) -> Answer {
        self.modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}})).await
    }

    /// Returns the names of a modern tool list, and the whole first result.
    pub async fn tools(&self, path: &str) -> (Vec<String>, Value) {
        let result = self.modern(path, "tools/list", json!({})).await.result();
        let names = result["tools"].as_array().expect("tools").iter();
        (names.map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect(), result)
    }

    pub async fn session(&self, path: &str, version: &str) -> Session<'_> {
        self.session_with(path, version, json!({})).await
    }

    pub async fn session_with(
        &self,
        path: &str,
        version: &str,
        capabilities: Value,
    ) -> Session<'_> {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = Request::bare("POST", path, body.to_string()).send(self.address).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let id = answer.header("mcp-session-id").expect("a session id").to_owned();
        let session = Session { gate: self, path: path.into(), id, welcome: answer.result() };
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let noted = session.post(note.to_string()).send(self.address).await;
        assert_eq!((noted.status, noted.body.len()), (202, 0));
        session
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Its server processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("lockgate's log:\n{}", self.log());
        }
    }
}

pub struct Session<'a> {
    gate: &'a Gate,
    pub path: String,
    pub id: String,
    pub welcome: Value,
}

impl Session<'_> {
    pub fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        Request::bare("POST", &self.path, body).with("Mcp-Session-Id", &self.id)
    }

    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        Request::legacy(&self.path, &self.id, 7, method, &params).send(self.gate.address).await
    }

    pub async fn call(&self, tool: &str) -> Answer {
        self.ask("tools/call", json!({"name": tool, "arguments": {}})).await
    }

    /// Opens the stream for messages outside calls.
    pub async fn listen(&self) -> Stream {
        Request::bare("GET", &self.path, "")
            .with("Mcp-Session-Id", &self.id)
            .with("Accept", "text/event-stream")
            .open(self.gate.address)
            .await
    }
}
