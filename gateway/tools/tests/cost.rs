//! What built-in tools cost beside the bare operation in the same run, with 1,000 tools registered and 100 callers. It takes
//! minutes and says figures, so that nothing runs it by itself:
//! `cargo test --release -p lockgate-tools -- --ignored --nocapture what_tools_cost`

#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "bare operations, and figures for people")]

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Mutex as Waiting};

use super::*;
use crate::database::tests::{Bare, Server as Postgres, settings};
use crate::tool::{Arguments, Card, Client, Mistake, Output, Tool};

const TOOLS: usize = 1000;
const CALLERS: usize = 100;
/// How often each caller calls, and how long it pauses in between on average.
const CALLS: usize = 15;
const PAUSE: Duration = Duration::from_secs(1);
/// How often all of them call in the same moment.
const BURSTS: usize = 10;
/// Connections to PostgreSQL, of the tool and of the bare operation.
const POOL: usize = 8;
const PAGE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";

/// One of many tools.
struct Another(usize);

impl Tool for Another {
    fn card(&self) -> Card {
        let text =
            json!({"text": {"type": "string", "description": "Some text that a description says something about"}});
        Card::new(
            format!("bulk/tool_{}", self.0),
            "Another tool",
            "One of many, with a description of the usual length.",
        )
        .input(text.clone(), &["text"])
        .output(text, &["text"])
    }

    fn run<'a>(&'a self, arguments: Arguments, _: Client<'a>) -> BoxFuture<'a, Result<Output, Mistake>> {
        Box::pin(async move { Ok(json!({"text": arguments.text("text")?}).into()) })
    }
}

type Bared = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What is measured: the same done without the tool, and the call of it.
struct Operation {
    name: &'static str,
    tool: (&'static str, &'static str),
    request: Request,
    bare: Bared,
}

impl Operation {
    fn new(name: &'static str, tool: (&'static str, &'static str), arguments: &Value, bare: Bared) -> Self {
        Self { name, tool, request: request(Method::ToolsCall, &json!({"arguments": arguments})), bare }
    }

    async fn time(&self, rig: &Rig, tool: bool) -> Duration {
        let began = Instant::now();
        if !tool {
            (self.bare)().await;
            return began.elapsed();
        }
        let answer = rig.send(self.tool.0, self.tool.1, &self.request, &[], None, None).await.unwrap();
        let took = began.elapsed();
        let result = open(&answer).unwrap();
        assert_eq!(result["isError"], json!(false), "{result}");
        took
    }
}

fn bare<F: Future<Output = ()> + Send + 'static>(work: impl Fn() -> F + Send + Sync + 'static) -> Bared {
    Arc::new(move || Box::pin(work()))
}

/// Each caller in turns: bare, tool, with pauses that keep the machine from being the measure.
async fn paced(rig: &Arc<Rig>, operation: &Arc<Operation>) -> [Vec<Duration>; 2] {
    let callers = (0..CALLERS).map(|_| {
        let (rig, operation) = (Arc::clone(rig), Arc::clone(operation));
        tokio::spawn(async move {
            let mut times = [const { Vec::new() }; 2];
            for _ in 0..CALLS {
                for (tool, times) in [false, true].into_iter().zip(&mut times) {
                    tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
                    times.push(operation.time(&rig, tool).await);
                }
            }
            times
        })
    });
    gather(callers.collect()).await
}

/// All callers in the same moment.
async fn bursts(rig: &Arc<Rig>, operation: &Arc<Operation>) -> [Vec<Duration>; 2] {
    let together = Arc::new(Barrier::new(CALLERS));
    let callers = (0..CALLERS).map(|_| {
        let (rig, operation, together) = (Arc::clone(rig), Arc::clone(operation), Arc::clone(&together));
        tokio::spawn(async move {
            let mut times = [const { Vec::new() }; 2];
            for _ in 0..BURSTS {
                for (tool, times) in [false, true].into_iter().zip(&mut times) {
                    together.wait().await;
                    times.push(operation.time(&rig, tool).await);
                }
            }
            times
        })
    });
    gather(callers.collect()).await
}

async fn gather(callers: Vec<tokio::task::JoinHandle<[Vec<Duration>; 2]>>) -> [Vec<Duration>; 2] {
    let mut all = [const { Vec::new() }; 2];
    for caller in callers {
        for (all, times) in all.iter_mut().zip(caller.await.unwrap()) {
            all.extend(times);
        }
    }
    all
}

/// p50 and p95 in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    (at(50), at(95))
}

fn row(name: &str, how: &str, [bare, tool]: [Vec<Duration>; 2]) {
    let ((bare_half, bare_most), (tool_half, tool_most)) = (percentiles(bare), percentiles(tool));
    let added = tool_most - bare_most;
    eprintln!("| {name} | {how} | {bare_half:.3} | {bare_most:.3} | {tool_half:.3} | {tool_most:.3} | {added:.3} |");
}

/// A web server that gives one page.
async fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 2048];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(PAGE).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

async fn get(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, PAGE);
}

async fn echo() {
    let mut command = tokio::process::Command::new("/bin/echo");
    let out = command.arg("hi").env_clear().stdin(Stdio::null()).stderr(Stdio::piped()).output().await.unwrap();
    assert_eq!(out.stdout, b"hi\n");
}

async fn operations(folder: &Path, port: u16, postgres: Option<&Postgres>) -> Vec<Operation> {
    let file = folder.join("four");
    let read = bare(move || {
        assert_eq!(std::fs::read(&file).unwrap().len(), 4096);
        std::future::ready(())
    });
    let open = rusqlite::Connection::open(folder.join("one.db")).unwrap();
    let open = Arc::new(Mutex::new(open));
    let sqlite = bare(move || {
        let one: i64 = open.lock().prepare("SELECT 1").unwrap().query_row([], |row| row.get(0)).unwrap();
        assert_eq!(one, 1);
        std::future::ready(())
    });
    let query = |connection: &str| json!({"sql": "SELECT 1", "connection": connection});
    let mut all = vec![
        Operation::new("file read, 4 KiB", ("file", "read"), &json!({"path": "four"}), read),
        Operation::new("`echo hi`", ("shell", "execute"), &json!({"command": "echo hi"}), bare(echo)),
        Operation::new(
            "local GET",
            ("web", "request"),
            &json!({"url": format!("http://127.0.0.1:{port}/")}),
            bare(move || get(port)),
        ),
        Operation::new("`SELECT 1`, SQLite", ("database", "query"), &query("lite"), sqlite),
    ];
    if let Some(server) = postgres {
        let mut pool = Vec::new();
        for _ in 0..POOL {
            pool.push(Waiting::new(Bare::open(server).await));
        }
        let (pool, turn) = (Arc::new(pool), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        let select = bare(move || {
            let (pool, turn) = (Arc::clone(&pool), turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            async move { pool[turn % POOL].lock().await.one().await }
        });
        all.push(Operation::new("`SELECT 1`, PostgreSQL", ("database", "query"), &query("main"), select));
    }
    all
}

fn config(folder: &Path, port: u16, postgres: Option<&Postgres>) -> Config {
    let file = file::config::Config {
        roots: vec![file::config::Root { path: folder.to_owned(), write: false }],
        deny: Vec::new(),
        deny_write: Vec::new(),
        limits: file::config::Limits {
            read_bytes: 1 << 20,
            write_bytes: 1 << 20,
            entries: 10_000,
            resources: 100,
            concurrent: 16,
            timeout: Duration::from_secs(30),
        },
    };
    Config {
        system: true,
        file: Some(file),
        shell: Some(shell::tests::settings(folder)),
        web: Some(web::tests::settings(port)),
        database: Some(settings(&folder.join("one.db"), postgres, POOL)),
        ..Config::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for minutes, in a release build"]
async fn what_tools_cost() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    std::fs::write(place.join("four"), vec![b'x'; 4096]).unwrap();
    rusqlite::Connection::open(place.join("one.db")).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let (port, postgres) = (page().await, database::tests::postgres().await);
    let operations = operations(&place, port, postgres.as_ref()).await;
    let rig = Arc::new(rig(&config(&place, port, postgres.as_ref())));
    let listed = bulk(&rig);
    eprintln!("| operation | {CALLERS} callers | bare p50 | bare p95 | tool p50 | tool p95 | p95 added, ms |");
    eprintln!("|---|---|---:|---:|---:|---:|---:|");
    for operation in operations.into_iter().map(Arc::new) {
        for tool in [false, true, true, true] {
            operation.time(&rig, tool).await;
        }
        row(operation.name, "in turns", paced(&rig, &operation).await);
        row(operation.name, "at once", bursts(&rig, &operation).await);
    }
    let (half, most) = percentiles(listed);
    eprintln!("a list of the {TOOLS} tools, warm: p50 {half:.3} ms, p95 {most:.3} ms");
}

/// Registers many tools, and says how long a list of them takes.
fn bulk(rig: &Rig) -> Vec<Duration> {
    let tools = (0..TOOLS).map(|number| Box::new(Another(number)) as Box<dyn Tool>).collect();
    let tools = Registry::prepare("bulk", tools).unwrap();
    rig.builtin.registry.install("bulk", &tools);
    let parts = Parts { instructions: String::new(), tools, material: None, trouble: None };
    let about = &rig.builtin.about;
    let server = Server::start("bulk", &about.version, parts, Arc::clone(&rig.builtin.registry), about.events.clone());
    let list = || {
        let began = Instant::now();
        let catalog = server.catalog();
        let text: Vec<u8> = catalog.items(ListKind::Tools).iter().flat_map(|item| item.text.iter().copied()).collect();
        assert!(text.len() > 100 * TOOLS);
        began.elapsed()
    };
    (0..200).map(|_| list()).collect()
}
