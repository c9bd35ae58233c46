//! The one command: starts what is measured, measures it in order, prints the table, writes the JSON.
//! Refuses to report success after a wrong answer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::allocations::{self, Program};
use crate::echo::Eras;
use crate::measure::{Plan, Target, measure};
use crate::proxy::{self, Gateway, Server};
use crate::report::{CEILING, DIRECT, Line, NGINX, Report};
use crate::wire::{Era, Face};
use crate::{idle, latency, table};

/// The gateway's two faces: all servers with namespaced tools, and one server as itself.
const MERGED: (&str, &str, &str) = ("gateway /mcp", "/mcp", "echo__echo");
const SINGLE: (&str, &str, &str) = ("gateway /servers", "/servers/echo/mcp", "echo");
/// Tools of the long list.
const TOOLS: usize = 1000;

#[derive(clap::Args)]
pub struct Options {
    /// The gateway's program
    #[arg(long, default_value = "target/release/lockgate")]
    bin: PathBuf,
    /// Measure direct calls and nginx only
    #[arg(long)]
    no_gateway: bool,
    /// Under a minute, for CI: fails on wrong answers and on a ratio above 4 only
    #[arg(long)]
    quick: bool,
    /// Fail when any target is missed
    #[arg(long)]
    strict: bool,
    /// Write all figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// End each window after so many calls, however long they take (at most two minutes)
    #[arg(long)]
    calls: Option<u64>,
    /// Rounds; medians over them are reported
    #[arg(long)]
    rounds: Option<usize>,
    /// Worker processes of nginx; as many as cores by default
    #[arg(long)]
    nginx_workers: Option<usize>,
    /// Which eras the upstream speaks
    #[arg(long, default_value = "both")]
    upstream_era: Eras,
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, millis) = if self.quick { (2, 250) } else { (3, 1500) };
        let rounds = self.rounds.unwrap_or(rounds).clamp(1, 100);
        match self.calls {
            Some(calls) => Plan { rounds, window: Duration::from_secs(120), calls: calls.max(1) },
            None => Plan { rounds, window: Duration::from_millis(millis), calls: u64::MAX },
        }
    }
}

/// What runs, and where it writes.
struct Stand {
    // Dropped from the top: the gateway and nginx end before what they forward to, the folder last.
    gateway: Option<Server>,
    nginx: Server,
    echo: Server,
    folder: TempDir,
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(
        options.no_gateway || options.bin.exists(),
        "no gateway at {}: build it (cargo build --release), name another with --bin, or leave it out with --no-gateway",
        options.bin.display()
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.nginx_workers.unwrap_or(cores).clamp(1, 64);
    let stand = start(options, workers).await?;
    let plan = options.plan();
    let cells = measure(&targets(&stand), plan, progress).await;
    let mut lines = Vec::new();
    let repeats = if options.quick { 100 } else { 500 };
    progress("initialize");
    for face in faces(&stand.echo, Some(&stand.nginx), stand.gateway.as_ref()) {
        let value = latency::initialize(&face, repeats).await;
        let limit = is_gateway(&face).then_some(1.0);
        lines.push(line(face.name, "initialize, median".into(), "ms", value, limit));
    }
    let upstream = stand.echo.address;
    lists(options, stand.folder.path(), &mut lines).await?;
    if !options.no_gateway {
        sessions(options, upstream, stand.folder.path(), &mut lines).await;
    }
    if !options.quick {
        heap(options, upstream, stand.folder.path(), &mut lines).await;
    }
    let setting = format!(
        "{} rounds of {} ms windows, nginx with {workers} workers, upstream speaks {}",
        plan.rounds,
        plan.window.as_millis(),
        clap::ValueEnum::to_possible_value(&options.upstream_era).map_or_else(String::new, |word| word.get_name().into())
    );
    drop(stand);
    finish(options, &Report { machine: machine(cores), setting, cells, lines })
}

async fn start(options: &Options, workers: usize) -> anyhow::Result<Stand> {
    let folder = tempfile::Builder::new().prefix("lockgate-load-").tempdir().context("make a folder")?;
    let echo = proxy::start_echo("echo", 1, options.upstream_era, folder.path()).await?;
    let nginx = proxy::start_nginx(workers, echo.address, folder.path()).await?;
    let gateway = match options.no_gateway {
        true => None,
        false => Some(gateway(options, &echo).start("gateway", folder.path()).await?),
    };
    Ok(Stand { gateway, nginx, echo, folder })
}

fn gateway(options: &Options, upstream: &Server) -> Gateway {
    Gateway { program: options.bin.clone(), upstream: upstream.address }
}

/// Every place to call.
fn faces(echo: &Server, nginx: Option<&Server>, gateway: Option<&Server>) -> Vec<Face> {
    let plain = |name, server: &Server| Face { name, address: server.address, path: "/mcp", tool: "echo" };
    let mut all = vec![plain(DIRECT, echo)];
    all.extend(nginx.map(|nginx| plain(NGINX, nginx)));
    if let Some(gateway) = gateway {
        all.extend([MERGED, SINGLE].map(|(name, path, tool)| Face { name, address: gateway.address, path, tool }));
    }
    all
}

fn is_gateway(face: &Face) -> bool {
    face.name == MERGED.0 || face.name == SINGLE.0
}

fn targets(stand: &Stand) -> Vec<Target<'_>> {
    let charged = |face: &Face| match (face.name, &stand.gateway) {
        (DIRECT, _) => &stand.echo.process,
        (NGINX, _) | (_, None) => &stand.nginx.process,
        (_, Some(gateway)) => &gateway.process,
    };
    let all = faces(&stand.echo, Some(&stand.nginx), stand.gateway.as_ref());
    all.into_iter().map(|face| Target { process: charged(&face), face }).collect()
}

/// A warm list of many tools, through a gateway of its own.
async fn lists(options: &Options, folder: &Path, lines: &mut Vec<Line>) -> anyhow::Result<()> {
    progress("tools/list");
    let echo = proxy::start_echo("echo-tools", TOOLS, options.upstream_era, folder).await?;
    let gateway = match options.no_gateway {
        true => None,
        false => Some(gateway(options, &echo).start("gateway-tools", folder).await?),
    };
    let repeats = if options.quick { 20 } else { 200 };
    for face in faces(&echo, None, gateway.as_ref()) {
        for era in Era::BOTH {
            let value = latency::list(&face, era, TOOLS, repeats).await;
            let limit = is_gateway(&face).then_some(5.0);
            lines.push(line(face.name, format!("tools/list of {TOOLS}, warm, median, {}", era.word()), "ms", value, limit));
        }
    }
    Ok(())
}

async fn sessions(options: &Options, upstream: std::net::SocketAddr, folder: &Path, lines: &mut Vec<Line>) {
    progress("idle sessions");
    let gateway = Gateway { program: options.bin.clone(), upstream };
    let found = idle::idle(&gateway, MERGED.1, if options.quick { 2000 } else { 5000 }, folder).await;
    let found = found.map_err(|error| format!("{error:#}"));
    let mut add = |what: &str, unit, figure: fn(&idle::Idle) -> f64, limit| {
        let value = found.as_ref().map(figure).map_err(Clone::clone);
        lines.push(Line { target: MERGED.0, what: what.into(), unit, value, limit, required: true });
    };
    add("an idle legacy session, proportional size", "KiB", |idle| idle.pss_kib, Some(10.0));
    add("an idle legacy session, resident size", "KiB", |idle| idle.rss_kib, None);
    add("1,000 idle legacy sessions, proportional size", "KiB", |idle| idle.pss_kib * 1000.0, None);
    add("sessions opened to measure that", "", |idle| idle.sessions as f64, None);
}

async fn heap(options: &Options, upstream: std::net::SocketAddr, folder: &Path, lines: &mut Vec<Line>) {
    if !allocations::possible() {
        progress("valgrind is not installed: no allocations per call");
        return;
    }
    let gateway = Gateway { program: options.bin.clone(), upstream };
    let direct = |address| proxy::echo_command(1, options.upstream_era, address);
    let forwarded = |address| gateway.command("gateway-heap", address, folder);
    let mut programs = vec![Program { name: DIRECT, path: "/mcp", tool: "echo", ready: None, command: &direct }];
    if !options.no_gateway {
        let (name, path, tool) = MERGED;
        programs.push(Program { name, path, tool, ready: Some("/readyz"), command: &forwarded });
    }
    for program in &programs {
        progress(&format!("allocations per call of {}", program.name));
        let counted = allocations::count(program, 2000, folder).await.map_err(|error| format!("{error:#}"));
        for (at, era) in Era::BOTH.into_iter().enumerate() {
            let mut add = |what: &str, unit, figure: fn(&allocations::PerCall) -> f64| {
                let value = counted.as_ref().map(|eras| figure(&eras[at])).map_err(Clone::clone);
                let what = format!("{what}, {}", era.word());
                lines.push(Line { target: program.name, what, unit, value, limit: None, required: false });
            };
            add("allocations per call", "", |per_call| per_call.allocations);
            add("bytes allocated per call", "B", |per_call| per_call.bytes);
        }
    }
}

fn line(target: &'static str, what: String, unit: &'static str, value: anyhow::Result<f64>, limit: Option<f64>) -> Line {
    Line { target, what, unit, value: value.map_err(|error| format!("{error:#}")), limit, required: true }
}

/// Prints and writes the report; the exit code says whether the run may pass.
fn finish(options: &Options, report: &Report) -> anyhow::Result<ExitCode> {
    std::io::stdout().lock().write_all(table::render(report).as_bytes()).context("print the table")?;
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", report.json())).with_context(|| format!("write {}", file.display()))?;
    }
    let verdicts = report.verdicts();
    let over = verdicts.iter().any(|verdict| verdict.ratio && verdict.value.is_none_or(|ratio| ratio > CEILING));
    let missed = options.strict && verdicts.iter().any(|verdict| !verdict.met());
    let failed = over || missed || !report.faults().is_empty();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn progress(words: &str) {
    // Progress is for people who watch; nothing depends on it.
    drop(writeln!(std::io::stderr().lock(), "… {words}"));
}

fn machine(cores: usize) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
