//! The cost of built-in tools compared with the same operation done directly: 100 sessions that
//! pause between their calls, with 1,000 further tools registered. Wrong results are errors.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::header::HeaderValue;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::echo::Eras;
use crate::peer::Peer;
use crate::proxy::{self, Gateway, Server};
use crate::run::{self, progress};
use crate::wire::{Era, Face, Template, expect_result};

const TOOLS: usize = 1000;
const SESSIONS: usize = 100;
/// The longest pause of a session, in milliseconds; long enough that the CPU is not saturated.
const PAUSE_MS: u64 = 800;
/// Limit on the time a tool adds at the 95th percentile, in milliseconds.
const ADDED_MS: f64 = 1.0;
/// Limit on the time of a list of all tools, in milliseconds.
const LIST_MS: f64 = 5.0;
const PAGE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";

#[derive(clap::Args)]
pub struct Options {
    /// The gateway's program; `lockgate` beside this program by default
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Calls of each session, of each operation
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 when a target is missed
    #[arg(long)]
    strict: bool,
}

/// An operation done directly, without a tool.
enum Bare {
    Read(PathBuf),
    Echo,
    Get(SocketAddr),
    Select(PathBuf),
    /// The same call sent to the server directly.
    Direct(Face),
    Nothing,
}

struct Operation {
    name: &'static str,
    bare: Bare,
    /// The tool and its arguments; `None` for a list of all tools.
    tool: Option<(&'static str, String)>,
    /// Bytes that a correct response contains.
    holds: &'static [u8],
    at_most: f64,
}

struct Row {
    name: &'static str,
    bare: Option<[f64; 2]>,
    tool: [f64; 2],
    at_most: f64,
}

impl Row {
    /// Returns the time the tool adds at the 95th percentile.
    fn added(&self) -> f64 {
        self.tool[1] - self.bare.map_or(0.0, |[_, most]| most)
    }
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let program = run::program(options.bin.as_deref())?;
    let temporary =
        tempfile::Builder::new().prefix("lockgate-tools-").tempdir().context("make a folder")?;
    let folder = temporary.path().canonicalize().context("find the folder")?;
    let page = page().await?;
    let echo = proxy::start_echo("echo", TOOLS, Eras::Both, &folder).await?;
    let gateway = start(&program, &echo, page, &folder).await?;
    let face =
        Face { name: "gateway", address: gateway.address, path: "/mcp", tool: "", key: None };
    let mut rows = Vec::new();
    for operation in operations(&folder, page, echo.address).into_iter().map(Rc::new) {
        progress(operation.name);
        rows.push(
            measure(&face, &operation, options.calls.clamp(1, 1000))
                .await
                .context(operation.name)?,
        );
    }
    drop(gateway);
    let text = if options.json { json(&rows) } else { table(&rows) };
    std::io::stdout().lock().write_all(text.as_bytes()).context("print the figures")?;
    let missed = options.strict && rows.iter().any(|row| row.added() > row.at_most);
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn start(
    program: &Path,
    echo: &Server,
    page: SocketAddr,
    folder: &Path,
) -> anyhow::Result<Server> {
    let work = folder.join("work");
    std::fs::create_dir(&work).context("make a folder")?;
    std::fs::write(work.join("four"), vec![b'x'; 4096]).context("write a file")?;
    let base = folder.join("one.db");
    rusqlite::Connection::open(&base)?
        .execute_batch("CREATE TABLE t (a)")
        .context("make a database")?;
    let (work, base, port) = (work.display(), base.display(), page.port());
    let more = format!(
        "  file: {{ roots: [{{ path: \"{work}\" }}] }}\n  shell: {{ roots: [{{ path: \"{work}\" }}] }}\n  \
           web: {{ any_host: true, addresses: [\"127.0.0.1\"], ports: [{port}] }}\n  \
           database: {{ connections: {{ one: {{ file: \"{base}\" }} }} }}\n"
    );
    Gateway { program: program.to_owned(), upstream: echo.address, more }
        .start("gateway", folder)
        .await
}

fn operations(folder: &Path, page: SocketAddr, echo: SocketAddr) -> Vec<Operation> {
    let of = |name, bare, tool, arguments: &str, holds| Operation {
        name,
        bare,
        tool: Some((tool, arguments.to_owned())),
        holds,
        at_most: ADDED_MS,
    };
    let direct = Face { name: "direct", address: echo, path: "/mcp", tool: "echo", key: None };
    let get = format!(r#"{{"url":"http://{page}/"}}"#);
    vec![
        of("a server's tool", Bare::Direct(direct), "echo__echo", r#"{"text":"hi"}"#, b"\"hi\""),
        of(
            "file/read, 4 KiB",
            Bare::Read(folder.join("work/four")),
            "file__read",
            r#"{"path":"four"}"#,
            b"xxxxxxxx",
        ),
        of(
            "shell/execute, echo hi",
            Bare::Echo,
            "shell__execute",
            r#"{"command":"echo hi"}"#,
            b"hi\\n",
        ),
        of("web/request, a local GET", Bare::Get(page), "web__request", &get, b"hello"),
        of(
            "database/query, SELECT 1 of SQLite",
            Bare::Select(folder.join("one.db")),
            "database__query",
            r#"{"sql":"SELECT 1 AS one","connection":"one"}"#,
            b"\"one\"",
        ),
        Operation {
            name: "tools/list of more than 1,000 tools",
            bare: Bare::Nothing,
            tool: None,
            holds: b"\"tools\"",
            at_most: LIST_MS,
        },
    ]
}

/// Runs all sessions concurrently; each alternates direct and tool calls, with pauses.
async fn measure(face: &Face, operation: &Rc<Operation>, calls: usize) -> anyhow::Result<Row> {
    let local = LocalSet::new();
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let (face, operation) = (face.clone(), Rc::clone(operation));
            local.spawn_local(async move { session(&face, &operation, calls, number as u64).await })
        })
        .collect();
    let mut times = [const { Vec::new() }; 2];
    local
        .run_until(async {
            for session in sessions {
                for (all, some) in times.iter_mut().zip(session.await??) {
                    all.extend(some);
                }
            }
            anyhow::Ok(())
        })
        .await?;
    let [bare, tool] = times;
    let bare =
        if matches!(operation.bare, Bare::Nothing) { None } else { Some(percentiles(bare)?) };
    Ok(Row { name: operation.name, bare, tool: percentiles(tool)?, at_most: operation.at_most })
}

async fn session(
    face: &Face,
    operation: &Operation,
    calls: usize,
    number: u64,
) -> anyhow::Result<[Vec<Duration>; 2]> {
    let mut peer = Peer::connect(face.address).await?;
    let session = peer.open_session(face).await?;
    let mut bare = operation.bare.open().await?;
    let template = template(face, operation, &session)?;
    let mut pauses = Pauses(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut times = [const { Vec::new() }; 2];
    for turn in 0..=calls {
        pauses.next().await;
        let began = Instant::now();
        bare.perform().await?;
        let alone = began.elapsed();
        pauses.next().await;
        let began = Instant::now();
        let id = peer.fresh_id();
        let answer = peer.send(template.request(id)).await?;
        let took = began.elapsed();
        expect_result(&answer, id)?;
        let right = memmem::find(&answer.body, operation.holds).is_some()
            && memmem::find(&answer.body, br#""isError":true"#).is_none();
        ensure!(right, "another answer: {}", String::from_utf8_lossy(&answer.body));
        // The first call of a session warms it up.
        if turn > 0 {
            times[0].push(alone);
            times[1].push(took);
        }
    }
    peer.end_session(face, &session).await?;
    Ok(times)
}

fn template(face: &Face, operation: &Operation, session: &HeaderValue) -> anyhow::Result<Template> {
    match &operation.tool {
        Some((tool, arguments)) => {
            Template::tool(face, Era::Legacy, Some(session), tool, arguments)
        }
        None => Template::list(face, Era::Legacy, Some(session), None),
    }
}

/// The pauses of a session, from its own xorshift generator so that sessions do not synchronise.
struct Pauses(u64);

impl Pauses {
    async fn next(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        tokio::time::sleep(Duration::from_millis(self.0 % PAUSE_MS)).await;
    }
}

/// An opened operation, ready to repeat.
enum Ready<'a> {
    Read(&'a Path),
    Echo,
    Get(SocketAddr),
    Select(rusqlite::Connection),
    Direct(Peer, Box<Template>),
    Nothing,
}

impl Bare {
    async fn open(&self) -> anyhow::Result<Ready<'_>> {
        Ok(match self {
            Self::Read(file) => Ready::Read(file),
            Self::Echo => Ready::Echo,
            Self::Get(address) => Ready::Get(*address),
            Self::Select(file) => Ready::Select(rusqlite::Connection::open(file)?),
            Self::Direct(face) => {
                let mut peer = Peer::connect(face.address).await?;
                let session = peer.open_session(face).await?;
                let call = Template::tool(
                    face,
                    Era::Legacy,
                    Some(&session),
                    face.tool,
                    r#"{"text":"hi"}"#,
                )?;
                Ready::Direct(peer, Box::new(call))
            }
            Self::Nothing => Ready::Nothing,
        })
    }
}

impl Ready<'_> {
    async fn perform(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Read(file) => {
                ensure!(std::fs::read(file)?.len() == 4096, "a file of another size")
            }
            Self::Echo => {
                let mut command = tokio::process::Command::new("/bin/echo");
                command.arg("hi").env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
                ensure!(command.output().await?.stdout == b"hi\n", "echo said something else");
            }
            Self::Get(address) => {
                let mut stream = TcpStream::connect(*address).await?;
                stream
                    .write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                    .await?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await?;
                ensure!(answer == PAGE, "another page");
            }
            Self::Select(base) => {
                let one: i64 = base.query_row("SELECT 1", [], |row| row.get(0))?;
                ensure!(one == 1, "another number");
            }
            Self::Direct(peer, call) => {
                let id = peer.fresh_id();
                expect_result(&peer.send(call.request(id)).await?, id)?;
            }
            Self::Nothing => {}
        }
        Ok(())
    }
}

/// Starts a web server with a single page.
async fn page() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("open a port")?;
    let address = listener.local_addr().context("read the address")?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 2048];
                // Errors are ignored: the client detects an incomplete response.
                drop(stream.read(&mut head).await);
                drop(stream.write_all(PAGE).await);
                drop(stream.shutdown().await);
            });
        }
    });
    Ok(address)
}

/// Returns the median and the 95th percentile, in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> anyhow::Result<[f64; 2]> {
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100);
    let (half, most) = at(50).zip(at(95)).context("nothing was measured")?;
    Ok([half, most].map(|time| time.as_secs_f64() * 1e3))
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| operation | bare p50, ms | bare p95 | tool p50 | tool p95 | added at p95 | at most | met |\n\
         |---|---:|---:|---:|---:|---:|---:|---|\n",
    );
    for row in rows {
        let [bare, bare_most] =
            row.bare.map_or([const { String::new() }; 2], |bare| bare.map(|ms| format!("{ms:.3}")));
        let ([tool, tool_most], added) = (row.tool, row.added());
        let met = if added <= row.at_most { "yes" } else { "NO" };
        text += &format!(
            "| {} | {bare} | {bare_most} | {tool:.3} | {tool_most:.3} | {added:.3} | {} | {met} |\n",
            row.name, row.at_most
        );
    }
    text
}

fn json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "operation": row.name, "bare_p50_p95_ms": row.bare, "tool_p50_p95_ms": row.tool,
                "added_p95_ms": row.added(), "at_most_ms": row.at_most,
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(rows))
}
