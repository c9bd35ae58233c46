//! CPU time of a request for three ways to drive an HTTP/1.1 connection, against an echo server in
//! another process.
//!
//! `cargo run --release -p lockgate-egress --example egress_cost [REQUESTS] [BODY_BYTES]` prints
//! microseconds of this process's CPU time per request, the median of five interleaved rounds; `…
//! REQUESTS BODY_BYTES WAY THREADS TASKS` runs a single way.

#![allow(
    clippy::disallowed_methods,
    reason = "a bench starts, connects to and reads what it likes"
)]

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{BufRead, BufReader, Write};
use std::pin::{Pin, pin};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use lockgate_egress::{Config, Connector, Origin, Payload, Policy};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn Error + Send + Sync>;
type Sender = SendRequest<Full<Bytes>>;
type Conn = Connection<TokioIo<TcpStream>, Full<Bytes>>;

#[derive(Clone, Copy, Debug)]
enum Way {
    /// A task per connection drives it; a stack of senders.
    Spawned,
    /// The caller polls sender and connection with its own waker.
    Naive,
    Origin,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "serve") {
        return tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(serve());
    }
    let number = |index: usize, default: usize| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let requests = number(1, 60_000);
    let size = number(2, 1024);
    let (mut server, port) = start()?;
    let result = match arguments.get(3..6) {
        Some([way, ..]) => alone(way, number(4, 0), number(5, 1), port, requests, size),
        _ => compare(port, requests, size),
    };
    server.kill()?;
    server.wait()?;
    result
}

/// Runs a single way, for a profiler.
fn alone(
    way: &str,
    threads: usize,
    tasks: usize,
    port: u16,
    requests: usize,
    size: usize,
) -> Result<(), Failure> {
    let way = match way {
        "spawned" => Way::Spawned,
        "naive" => Way::Naive,
        _ => Way::Origin,
    };
    let figure = measure(way, threads, tasks, port, requests, size)?;
    Ok(writeln!(std::io::stdout(), "{way:?} {figure:.2}")?)
}

fn compare(port: u16, requests: usize, size: usize) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:16} {:>5} {:>9} {:>9} {:>9}   µs CPU per request ({size} bytes each way)",
        "runtime", "tasks", "spawned", "naive", "origin"
    )?;
    for (name, threads) in [("current_thread", 0), ("multi_thread 2", 2)] {
        for tasks in [1, 8, 64] {
            let mut figures: [Vec<f64>; 3] = Default::default();
            for _ in 0..5 {
                for (way, into) in
                    [Way::Spawned, Way::Naive, Way::Origin].into_iter().zip(&mut figures)
                {
                    into.push(measure(way, threads, tasks, port, requests, size)?);
                }
            }
            let [spawned, naive, origin] = figures.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            });
            writeln!(out, "{name:16} {tasks:>5} {spawned:>9.2} {naive:>9.2} {origin:>9.2}")?;
        }
    }
    Ok(())
}

fn measure(
    way: Way,
    threads: usize,
    tasks: usize,
    port: u16,
    requests: usize,
    size: usize,
) -> Result<f64, Failure> {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(threads.max(1)).enable_all().build()?;
    runtime.block_on(async {
        let client = Arc::new(Client::new(way, port)?);
        run(&client, tasks, requests / 10, size).await?;
        let before = cpu()?;
        let started = Instant::now();
        run(&client, tasks, requests, size).await?;
        let spent = cpu()? - before;
        let _wall = started.elapsed();
        Ok(spent.as_secs_f64() * 1e6 / requests as f64)
    })
}

async fn run(
    client: &Arc<Client>,
    tasks: usize,
    requests: usize,
    size: usize,
) -> Result<(), Failure> {
    let body = Bytes::from(vec![b'x'; size]);
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let client = client.clone();
            let body = body.clone();
            tokio::spawn(async move {
                for _ in 0..requests / tasks {
                    let answer = client.call(body.clone()).await?;
                    assert_eq!(answer.len(), body.len());
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in all {
        task.await??;
    }
    Ok(())
}

struct Client {
    way: Way,
    port: u16,
    headers: HeaderMap,
    senders: Mutex<Vec<Sender>>,
    pairs: Mutex<Vec<(Sender, Conn)>>,
    origin: Origin,
}

impl Client {
    fn new(way: Way, port: u16) -> Result<Self, Failure> {
        let config = Config {
            ca_file: None,
            from_environment: false,
            route: None,
            connect_timeout: Duration::from_secs(5),
            idle_connections: 64,
            idle_timeout: Duration::from_secs(30),
            organisations: Policy::Public,
        };
        let url = url::Url::parse(&format!("http://127.0.0.1:{port}/mcp"))?;
        let origin =
            Origin::new(Arc::new(Connector::new(&config)?), &url, Policy::Operator, &config)?;
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "127.0.0.1"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
        ] {
            headers.insert(name, value.parse()?);
        }
        Ok(Self { way, port, headers, senders: Mutex::default(), pairs: Mutex::default(), origin })
    }

    async fn call(&self, body: Bytes) -> Result<Bytes, Failure> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.origin.uri().clone();
        *request.headers_mut() = self.headers.clone();
        match self.way {
            Way::Spawned => self.spawned(request).await,
            Way::Naive => self.naive(request).await,
            Way::Origin => {
                let request = request.map(|_| Payload::from(body));
                Ok(self.origin.send(request).await?.into_body().collect_limited(1 << 20).await?)
            }
        }
    }

    async fn connect(&self) -> Result<(Sender, Conn), Failure> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await?;
        tcp.set_nodelay(true)?;
        Ok(handshake(TokioIo::new(tcp)).await?)
    }

    async fn spawned(&self, request: Request<Full<Bytes>>) -> Result<Bytes, Failure> {
        let taken = self.senders.lock().pop();
        let mut sender = match taken {
            Some(sender) => sender,
            None => {
                let (sender, connection) = self.connect().await?;
                tokio::spawn(connection);
                sender
            }
        };
        let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        sender.ready().await?;
        self.senders.lock().push(sender);
        Ok(body)
    }

    async fn naive(&self, request: Request<Full<Bytes>>) -> Result<Bytes, Failure> {
        let taken = self.pairs.lock().pop();
        let mut pair = match taken {
            Some(pair) => pair,
            None => self.connect().await?,
        };
        let (sender, connection) = &mut pair;
        let body = {
            let mut exchange =
                pin!(async { sender.send_request(request).await?.into_body().collect().await });
            poll_fn(|cx| {
                if let Poll::Ready(Err(error)) = Pin::new(&mut *connection).poll(cx) {
                    return Poll::Ready(Err(error));
                }
                exchange.as_mut().poll(cx)
            })
            .await?
            .to_bytes()
        };
        self.pairs.lock().push(pair);
        Ok(body)
    }
}

/// Returns the CPU time of all threads of this process, user and system.
fn cpu() -> Result<Duration, Failure> {
    let mut nanoseconds = 0u64;
    for entry in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(entry?.path().join("schedstat"))?;
        nanoseconds += text.split(' ').next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn start() -> Result<(Child, u16), Failure> {
    let mut child =
        Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    Ok((child, line.trim().parse()?))
}

async fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let echo = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async {
            let body = request.into_body().collect().await?.to_bytes();
            let mut response = Response::new(Full::new(body));
            response
                .headers_mut()
                .insert("content-type", http::HeaderValue::from_static("application/json"));
            Ok::<_, hyper::Error>(response)
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), echo),
        );
    }
}
