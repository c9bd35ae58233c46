//! Measures the CPU time of a request in the listener, beside a bare hyper echo: `cargo run
//! --release -p lockgate-listener --example request_cost`. Starts itself once per variant as a
//! server process, sends requests over loopback and prints the CPU time per request.

#![allow(
    clippy::disallowed_methods,
    reason = "a bench starts, connects to and reads what it likes"
)]

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Identity, Principal};
use lockgate_listener::{
    BodyLimits, Config, Handler, IncomingBody, Limits, Server, TrustedProxies,
};
use lockgate_proxy::TooManyStreams;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Reply};
use lockgate_telemetry::Rejection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const VARIANTS: [&str; 4] = ["bare-1", "listener-1", "listener-multi", "listener-reuseport"];
const THREADS: usize = 2;
const CONNECTIONS: usize = 32;
const REQUESTS: usize = 150_000;
const ROUNDS: usize = 5;

struct Echo(Arc<Budget>);

impl Handler for Echo {
    type Place = ();

    async fn identify(&self, _: &Endpoint, _: &Credentials) -> Result<Principal, Reply> {
        Ok(Principal::new(Identity::new("local", "user")))
    }

    fn stream(&self, _: &Principal) -> Result<(), TooManyStreams> {
        Ok(())
    }

    fn metadata(&self, _: &str) -> Option<String> {
        None
    }

    fn record_rejection(&self, _: Rejection, _: Cow<'static, str>) {}

    fn record_response(&self, _: StatusCode) {}

    fn budget(&self) -> &Arc<Budget> {
        &self.0
    }

    async fn handle(&self, exchange: &Exchange) -> Reply {
        match &exchange.kind {
            ExchangeKind::Post(body) => Reply::message(body.clone()),
            _ => Reply::empty(StatusCode::NO_CONTENT),
        }
    }
}

fn main() -> Outcome<()> {
    match std::env::args().nth(1) {
        Some(variant) => serve(&variant),
        None => compare(),
    }
}

fn compare() -> Outcome<()> {
    let mut best = [(f64::MAX, 0.0); VARIANTS.len()];
    for _ in 0..ROUNDS {
        for (variant, best) in VARIANTS.iter().zip(&mut best) {
            let (cpu, rate) = measure(variant)?;
            if cpu < best.0 {
                *best = (cpu, rate);
            }
        }
    }
    let mut out = std::io::stdout();
    for (variant, (cpu, rate)) in VARIANTS.iter().zip(best) {
        writeln!(out, "{variant:20} {cpu:6.2} µs CPU per request   {rate:8.0} requests/s")?;
    }
    Ok(())
}

/// Returns CPU microseconds per request and requests per second of one server process.
fn measure(variant: &str) -> Outcome<(f64, f64)> {
    let mut child =
        Command::new(std::env::current_exe()?).arg(variant).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let address: SocketAddr = line.trim().parse()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        load(address, REQUESTS / 10).await?;
        let before = cpu(child.id())?;
        let begin = Instant::now();
        load(address, REQUESTS).await?;
        let used = cpu(child.id())? - before;
        let took = begin.elapsed();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
            used.as_secs_f64() * 1e6 / REQUESTS as f64,
            REQUESTS as f64 / took.as_secs_f64(),
        ))
    });
    child.kill()?;
    child.wait()?;
    measured
}

/// Returns the CPU time of all threads of a process.
fn cpu(process: u32) -> Outcome<Duration> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

async fn load(address: SocketAddr, requests: usize) -> Outcome<()> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{}"}}}}}}"#,
        "x".repeat(400)
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\naccept: application/json, \
            text/event-stream\r\ncontent-type: application/json\r\nmcp-protocol-version: \
            2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\nauthorization: Bearer \
            0123456789abcdef0123456789abcdef\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let request: Arc<[u8]> = (head + &body).into_bytes().into();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = Arc::clone(&request);
        let length = body.len();
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut answer = Vec::with_capacity(4096);
            for _ in 0..requests / CONNECTIONS {
                stream.write_all(&request).await?;
                answer.clear();
                loop {
                    if stream.read_buf(&mut answer).await? == 0 {
                        return Err("closed early".into());
                    }
                    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
                    if end.is_some_and(|end| answer.len() >= end + 4 + length) {
                        break;
                    }
                }
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn serve(variant: &str) -> Outcome<()> {
    let one = || Builder::new_current_thread().enable_all().build();
    let announce = |address: SocketAddr| writeln!(std::io::stdout(), "{address}");
    match variant {
        "bare-1" => one()?.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            announce(listener.local_addr()?)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let service = service_fn(|request: Request<Incoming>| async {
                    let body = request.into_body().collect().await?.to_bytes();
                    Ok::<_, hyper::Error>(Response::new(Full::new(body)))
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        }),
        "listener-1" => {
            let server = Server::bind(config()?)?;
            announce(server.address())?;
            one()?.block_on(run(server))
        }
        "listener-multi" => {
            let server = Server::bind(config()?)?;
            announce(server.address())?;
            let runtime =
                Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
            runtime.block_on(async { tokio::spawn(run(server)).await? })
        }
        _ => {
            let servers = Server::bind_many(config()?, THREADS)?;
            let address = servers.first().map(Server::address).ok_or("no server")?;
            announce(address)?;
            let threads: Vec<_> = servers
                .into_iter()
                .map(|server| std::thread::spawn(move || one()?.block_on(run(server))))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a loop panicked")?)
        }
    }
}

async fn run(server: Server) -> Outcome<()> {
    let other = tower::service_fn(|_: Request<IncomingBody>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
    });
    server
        .run(
            Arc::new(Echo(Arc::new(Budget::new(256 << 20)))),
            other,
            std::future::pending(),
            Duration::ZERO,
        )
        .await?;
    Ok(())
}

fn config() -> Outcome<Config> {
    Ok(Config {
        listen: "127.0.0.1:0".parse()?,
        audience: lockgate_listener::Audience::Clients,
        hosts: Vec::new(),
        origins: Vec::new(),
        trusted_proxies: TrustedProxies::default(),
        tls: None,
        sse: false,
        keep_alive: Duration::from_secs(15),
        drain: Duration::ZERO,
        drains_when_idle: true,
        limits: Limits {
            body_bytes: 4 << 20,
            header_bytes: 16 << 10,
            read_timeout: Duration::from_secs(10),
            unfinished: BodyLimits {
                rate: 1024,
                slow_per_connection: 16,
                slow_per_principal: 256,
                bytes_per_connection: 32_000_000,
                bytes_per_principal: 50_000_000,
            },
            write_timeout: Duration::from_secs(60),
            connections: 10_000,
            connections_per_address: 10_000,
        },
    })
}
