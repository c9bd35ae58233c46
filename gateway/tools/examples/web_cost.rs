//! Measures `web/request` against a plain client: a GET of 1 KiB from a local server, each over a
//! new connection, sequentially, alternating, in one run.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_tools::{About, Builtin, Config, Web};
use lockgate_upstream::{Call, Caller, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WARM: usize = 64;
const RUNS: usize = 3000;
const BODY: usize = 1024;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(measure()))
    {
        Ok(table) => {
            let _ = std::io::Write::write_all(&mut std::io::stdout(), table.as_bytes());
            ExitCode::SUCCESS
        }
        Err(words) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn start(port: u16) -> Result<Arc<dyn Upstream>, String> {
    let egress = lockgate_egress::Config {
        ca_file: None,
        from_environment: false,
        route: None,
        connect_timeout: Duration::from_secs(5),
        idle_connections: 4,
        idle_timeout: Duration::from_secs(5),
        organisations: lockgate_egress::Policy::Public,
    };
    let about = About {
        name: "gate".into(),
        version: "1.0.0".into(),
        started: Instant::now(),
        events: tokio::sync::broadcast::channel(16).0,
        connector: Arc::new(
            lockgate_egress::Connector::new(&egress).map_err(|error| error.to_string())?,
        ),
    };
    let web = Web {
        hosts: Vec::new(),
        any_host: false,
        schemes: vec!["http".into()],
        ports: vec![port],
        networks: vec!["127.0.0.1/32".parse().map_err(|_| "no network")?],
        methods: vec!["GET".into()],
        headers: Vec::new(),
        user_agent: "lockgate/0.1.0".into(),
        timeout: Duration::from_secs(30),
        redirects: 5,
        request_bytes: 1 << 20,
        response_bytes: 1 << 20,
        proxy: None,
    };
    let builtin = Builtin::new(about);
    builtin.adopt(builtin.prepare(&Config { web: Some(web), ..Config::default() })?);
    builtin.servers().pop().ok_or_else(|| "there is no server".into())
}

fn request(port: u16) -> Result<Request, String> {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"request","arguments":{{"url":"http://127.0.0.1:{port}/"}}}}}}"#
    );
    match jsonrpc::parse(text.into(), 64, SentBy::Client) {
        Ok(Message::Request(request)) => Ok(request),
        _ => Err("the request is none".into()),
    }
}

async fn call(server: &dyn Upstream, request: &Request) -> Result<(), String> {
    let caller = Caller {
        id: lockgate_admission::CallerId::alone(1),
        capabilities: "{}".into(),
        interactive: false,
        assertion: None,
        log_level: None,
        session: None,
        era: Era::Modern,
    };
    let call = Call {
        method: Method::ToolsCall,
        target: "request",
        request,
        replaced: &[],
        caller: &caller,
        caller_view: None,
        channel: None,
        sink: None,
        tool: None,
        trace: None,
        timeout: None,
    };
    let answer = server.call(call).await.map_err(|failure| format!("{failure:?}"))?;
    let fine = answer.text.windows(12).any(|part| part == br#""status":200"#);
    if fine { Ok(()) } else { Err(String::from_utf8_lossy(&answer.text).into_owned()) }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the bare operation that the tool is measured against"
)]
async fn bare(port: u16) -> Result<(), String> {
    let wrong = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(wrong)?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .await
        .map_err(wrong)?;
    let mut answer = Vec::with_capacity(2 * BODY);
    stream.read_to_end(&mut answer).await.map_err(wrong)?;
    if answer.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err("the server is broken".into()) }
}

/// Starts a server on its own thread.
fn serve() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: \
                    close\r\ncontent-length: {BODY}\r\n\r\n{}",
                "x".repeat(BODY)
            );
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                if stream.read(&mut head).await.is_ok() {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
    });
    Ok(port)
}

async fn measure() -> Result<String, String> {
    let port = serve()?;
    let request = request(port)?;
    let server = start(port)?;
    let mut times = [const { Vec::new() }; 2];
    for run in 0..WARM + RUNS {
        for (at, times) in times.iter_mut().enumerate() {
            let began = Instant::now();
            match at {
                0 => bare(port).await?,
                _ => call(&*server, &request).await?,
            }
            if run >= WARM {
                times.push(began.elapsed());
            }
        }
    }
    let mut table = format!("GET of {BODY} bytes, {RUNS} runs each, in turns\n");
    for (name, mut times) in ["bare client", "web/request"].iter().zip(times) {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
        table.push_str(&format!("{name:12} p50 {:.0} µs, p95 {:.0} µs\n", at(50), at(95)));
    }
    Ok(table)
}
