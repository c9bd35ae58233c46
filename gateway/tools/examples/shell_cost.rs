//! Measures `shell/execute` against starting the same program (`echo`) directly: sequentially,
//! alternating, in one run. Tests of the shell server also start programs through it.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_policy::command::Spec;
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_tools::{About, Builtin, Config, Landlock, Shell, ShellLimits, ShellRoot, confined};
use lockgate_upstream::{Call, Caller, Upstream};

const WARM: usize = 50;
const RUNS: usize = 1000;

fn main() -> ExitCode {
    if let Some(code) = confined(std::env::args_os()) {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
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

/// Returns the settings that a configuration without further settings has.
fn shell(landlock: Landlock) -> Config {
    let limits = ShellLimits {
        timeout: Duration::from_secs(30),
        max_timeout: Duration::from_secs(300),
        output_bytes: 10_000_000,
        concurrent: 8,
        memory_bytes: 1 << 30,
        file_bytes: 64 << 20,
        open_files: 1024,
        processes: 512,
    };
    let shell = Shell {
        roots: vec![ShellRoot { path: std::env::temp_dir(), write: false }],
        rule: Spec::default(),
        search: ["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into).to_vec(),
        read: Vec::new(),
        environment: Default::default(),
        caller_environment: Vec::new(),
        landlock,
        limits,
        launcher: Shell::own_program(),
    };
    Config { shell: Some(shell), ..Config::default() }
}

fn start(landlock: Landlock) -> Result<Arc<dyn Upstream>, String> {
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
    let builtin = Builtin::new(about);
    let prepared = builtin.prepare(&shell(landlock))?;
    builtin.adopt(prepared);
    builtin.servers().pop().ok_or_else(|| "there is no server".into())
}

fn request() -> Result<Request, String> {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute","arguments":{"command":"echo hi"}}}"#;
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
        target: "execute",
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
    let hi = answer.text.windows(20).any(|part| part == br#""stdout":"hi\n","std"#);
    if hi { Ok(()) } else { Err(String::from_utf8_lossy(&answer.text).into_owned()) }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the bare operation that the tool is measured against"
)]
async fn bare() -> Result<(), String> {
    let mut command = Command::new("/bin/echo");
    command.arg("hi").env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
    let ran =
        tokio::process::Command::from(command).output().await.map_err(|error| error.to_string())?;
    if ran.stdout == b"hi\n" { Ok(()) } else { Err("echo is broken".into()) }
}

async fn measure() -> Result<String, String> {
    let request = request()?;
    let with = start(Landlock::Required)?;
    let without = start(Landlock::Off)?;
    let mut times = [const { Vec::new() }; 3];
    for run in 0..WARM + RUNS {
        for (at, times) in times.iter_mut().enumerate() {
            let began = Instant::now();
            match at {
                0 => bare().await?,
                1 => call(&*without, &request).await?,
                _ => call(&*with, &request).await?,
            }
            if run >= WARM {
                times.push(began.elapsed());
            }
        }
    }
    let mut table = format!("{RUNS} runs each, in turns\n");
    for (name, mut times) in
        ["bare spawn of /bin/echo", "shell/execute, landlock off", "shell/execute, landlock on"]
            .iter()
            .zip(times)
    {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        table.push_str(&format!("{name:30} p50 {:.2} ms, p95 {:.2} ms\n", at(50), at(95)));
    }
    Ok(table)
}
