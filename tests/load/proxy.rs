//! Starts the measured servers: the echo server, nginx as a plain reverse proxy in front of it, and
//! the gateway. Configurations are written to the run's folder; those of the machine are not used.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http::StatusCode;

use crate::echo::Eras;
use crate::peer::Peer;
use crate::process::Running;
use crate::wire::{Face, Template};

/// A started process and its address.
pub struct Server {
    pub process: Running,
    pub address: SocketAddr,
}

/// Limit on the time until a process is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// The same under valgrind, which first reads all debug information.
pub const VALGRIND_READY_TIMEOUT: Duration = Duration::from_secs(180);
/// Ports of the measured programs, below the usual ephemeral ports.
const PORTS: Range<u16> = 10_000..30_000;

pub fn echo_command(tools: usize, eras: Eras, address: SocketAddr) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    let era = match eras {
        Eras::Both => "both",
        Eras::Modern => "modern",
        Eras::Legacy => "legacy",
    };
    command.args([
        "echo",
        "--listen",
        &address.to_string(),
        "--tools",
        &tools.to_string(),
        "--era",
        era,
    ]);
    Ok(command)
}

pub async fn start_echo(
    name: &'static str,
    tools: usize,
    eras: Eras,
    folder: &Path,
) -> anyhow::Result<Server> {
    let address = free_address()?;
    let process = Running::start(name, &mut echo_command(tools, eras, address)?, folder)?;
    ready(process, address, None, READY_TIMEOUT).await
}

/// Settings of nginx that vary.
pub struct Nginx {
    pub workers: usize,
    /// `proxy_buffer_size` in KiB; nginx's default of one page takes many steps for a large
    /// response.
    pub buffer_kib: usize,
}

/// Starts nginx as a plain reverse proxy, with request bodies in memory and upstream keep-alive.
pub async fn start_nginx(
    nginx: &Nginx,
    upstream: SocketAddr,
    folder: &Path,
) -> anyhow::Result<Server> {
    let address = free_address()?;
    let file = folder.join("nginx.conf");
    let config = nginx_config(nginx, address, upstream, folder);
    fs::write(&file, config).context("write nginx.conf")?;
    let mut command = Command::new(nginx_program());
    command
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(&file)
        .arg("-e")
        .arg(folder.join("nginx-error.log"));
    let process = Running::start("nginx", &mut command, folder)
        .context("nginx is needed: apt-get install nginx-light")?;
    ready(process, address, None, READY_TIMEOUT).await
}

fn nginx_config(nginx: &Nginx, address: SocketAddr, upstream: SocketAddr, folder: &Path) -> String {
    let Nginx { workers, buffer_kib } = nginx;
    let place = folder.display();
    // Workers of a root master would switch to a user without access to the run's folder.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        r"{user}
worker_processes {workers};
daemon off;
pid {place}/nginx.pid;
error_log {place}/nginx-error.log error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_max_body_size 8m;
  client_body_buffer_size 128k;
  client_body_temp_path {place}/nginx-body;
  proxy_temp_path {place}/nginx-proxy;
  fastcgi_temp_path {place}/nginx-fastcgi;
  uwsgi_temp_path {place}/nginx-uwsgi;
  scgi_temp_path {place}/nginx-scgi;
  tcp_nodelay on;
  upstream echo {{
    server {upstream};
    keepalive 64;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
    listen {address} backlog=1024;
    location / {{
      proxy_pass http://echo;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_buffering off;
      proxy_buffer_size {buffer_kib}k;
      proxy_buffers 8 {buffer_kib}k;
      proxy_request_buffering on;
      proxy_read_timeout 300s;
    }}
  }}
}}
"
    )
}

/// Returns nginx's program. Debian installs it in a folder that is only in root's PATH.
fn nginx_program() -> &'static str {
    if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" }
}

/// The gateway's program and its upstream.
#[derive(Clone)]
pub struct Gateway {
    pub program: PathBuf,
    pub upstream: SocketAddr,
    /// Further configuration: first the entries of `builtin`, indented, then the rest.
    pub more: String,
}

impl Gateway {
    /// Returns the same gateway with another upstream.
    pub fn before(&self, upstream: SocketAddr) -> Self {
        Self { upstream, ..self.clone() }
    }

    /// Returns the command that serves the gateway, and writes `folder/name.yaml` for it.
    pub fn command(
        &self,
        name: &str,
        address: SocketAddr,
        folder: &Path,
    ) -> anyhow::Result<Command> {
        let file = folder.join(format!("{name}.yaml"));
        // Built-in tools are off, so that the gateway's lists are as long as the upstream's. On a
        // busy machine a gateway under valgrind may be ready before its server is connected.
        let config = format!(
            "servers: {{ echo: {{ url: \"http://{}/mcp\" }} }}\nbuiltin:\n  system: false\n\
             admin: {{ ready: all }}\n{}",
            self.upstream, self.more
        );
        fs::write(&file, config).context("write the gateway's configuration")?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(&file).arg("--listen").arg(address.to_string());
        Ok(command)
    }

    pub async fn start(&self, name: &'static str, folder: &Path) -> anyhow::Result<Server> {
        let address = free_address()?;
        let process = Running::start(name, &mut self.command(name, address, folder)?, folder)?;
        ready(process, address, Some("/readyz"), READY_TIMEOUT).await
    }
}

/// Waits until a process accepts connections, or until `path` returns 200.
pub async fn ready(
    mut process: Running,
    address: SocketAddr,
    path: Option<&str>,
    patience: Duration,
) -> anyhow::Result<Server> {
    let deadline = Instant::now() + patience;
    loop {
        process.check()?;
        match tokio::time::timeout(patience, probe(address, path)).await.context("no answer")? {
            Ok(()) => {
                // The answer may come from another program that has taken the port.
                process.check()?;
                return Ok(Server { process, address });
            }
            Err(error) if Instant::now() > deadline => {
                bail!("{address} is not ready: {error:#}\n{}", process.said());
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn probe(address: SocketAddr, path: Option<&str>) -> anyhow::Result<()> {
    let mut peer = Peer::connect(address).await?;
    if let Some(path) = path {
        let face = Face { name: "ready", address, path: "/", tool: "", key: None };
        let answer = peer.send(Template::get(&face, path)?.request(0)).await?;
        ensure!(answer.status == StatusCode::OK, "{path} gives {}", answer.status);
    }
    Ok(())
}

/// Returns a loopback address with a port that was free a moment ago. A program under valgrind
/// binds it seconds later, so the port is below those that the system gives to other programs.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS.len() {
        let number = std::process::id().wrapping_mul(64) + GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + u16::try_from(number % PORTS.len() as u32)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().context("read the address");
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end)
}
