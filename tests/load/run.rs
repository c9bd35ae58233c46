//! The `run` command: starts and measures the servers, prints the table and writes the JSON. A
//! wrong response fails the run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use crate::echo::Eras;
use crate::faces::{faces, guarded};
use crate::figures::Figures;
use crate::guard::{self, Guard};
use crate::measure::{Plan, Target, measure};
use crate::proxy::{self, Gateway, Nginx, Server};
use crate::report::{DEBUG_CEILING, DIRECT, FigureKind, GUARD, MAX_RATIO, NGINX, Report, Verdict};
use crate::table;
use crate::wire::Face;

#[derive(clap::Args)]
pub struct Options {
    /// The gateway's program; `lockgate` beside this program by default
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Measure direct calls and nginx only
    #[arg(long)]
    no_gateway: bool,
    /// Under a minute: fails on wrong answers and on a ratio above 4 only
    #[arg(long)]
    quick: bool,
    /// The same for a debug build, for CI: the ratio may be 40, the allocations per call are counted and limited
    #[arg(long)]
    debug: bool,
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
    /// `proxy_buffer_size` of nginx in KiB; 4 is its default, 64 takes a large response in one step
    #[arg(long, default_value_t = 4)]
    nginx_buffer: usize,
    /// Which eras the gateway's upstream speaks
    #[arg(long, default_value = "both")]
    upstream_era: Eras,
}

impl Options {
    /// Returns the gateway's program, or `None` with `--no-gateway`.
    fn gateway(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.no_gateway {
            return Ok(None);
        }
        program(self.bin.as_deref()).map(Some)
    }

    fn is_short(&self) -> bool {
        self.quick || self.debug
    }

    fn plan(&self) -> Plan {
        let (rounds, millis) = if self.is_short() { (2, 250) } else { (5, 1200) };
        let rounds = self.rounds.unwrap_or(rounds).clamp(1, 100);
        match self.calls {
            Some(calls) => Plan { rounds, window: Duration::from_secs(120), calls: calls.max(1) },
            None => Plan { rounds, window: Duration::from_millis(millis), calls: u64::MAX },
        }
    }
}

/// Returns the gateway's program: the given path, or `lockgate` beside this program.
pub fn program(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => std::env::current_exe().context("find this program")?.with_file_name("lockgate"),
    };
    ensure!(
        program.exists(),
        "no gateway at {}: build it (cargo build --release), name another with --bin, or leave it out with --no-gateway",
        program.display()
    );
    Ok(program)
}

/// The running servers and their folder.
struct Stand {
    // Drop order: proxies before their upstreams, the folder last.
    gateway: Option<(Server, Gateway)>,
    /// The gateway with policies, keys, limits and audit, and its caller's key.
    guarded: Option<(Server, String)>,
    nginx: Server,
    echo: Server,
    /// The gateway's upstream, unless that is the echo server.
    _upstream: Option<Server>,
    folder: TempDir,
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let gateway = options.gateway()?;
    let nginx = Nginx {
        workers: options.nginx_workers.unwrap_or_else(cores).clamp(1, 64),
        buffer_kib: options.nginx_buffer.clamp(4, 1024),
    };
    let stand = start(options.upstream_era, gateway, &nginx).await?;
    let plan = options.plan();
    let cells = measure(&targets(&stand), plan, progress).await;
    let mut figures = Figures {
        gateway: stand.gateway.as_ref().map(|(_, gateway)| gateway.clone()),
        eras: options.upstream_era,
        quick: options.is_short(),
        folder: stand.folder.path(),
        lines: Vec::new(),
    };
    figures.initialize(&stand.faces()).await;
    figures.lists().await?;
    figures.sessions().await;
    if !options.quick || options.debug {
        figures.heap().await;
    }
    let report = Report {
        machine: machine(),
        setting: setting(options, plan, &nginx),
        cells,
        lines: figures.lines,
    };
    finish(options, &report)
}

async fn start(eras: Eras, program: Option<PathBuf>, nginx: &Nginx) -> anyhow::Result<Stand> {
    let temporary = tempfile::Builder::new().prefix("lockgate-load-").tempdir();
    let folder = temporary.context("make a folder")?;
    let echo = proxy::start_echo("echo", 1, Eras::Both, folder.path()).await?;
    let nginx = proxy::start_nginx(nginx, echo.address, folder.path()).await?;
    let upstream = match eras {
        Eras::Both => None,
        eras => Some(proxy::start_echo("upstream", 1, eras, folder.path()).await?),
    };
    let (mut gateway, mut guarded) = (None, None);
    if let Some(program) = program {
        let Guard { key, config: more, .. } = guard::prepare(&program, folder.path())?;
        let open = Gateway {
            program,
            upstream: upstream.as_ref().unwrap_or(&echo).address,
            more: String::new(),
        };
        let strict = Gateway { more, ..open.clone() };
        guarded = Some((strict.start("guarded", folder.path()).await?, key));
        gateway = Some((open.start("gateway", folder.path()).await?, open));
    }
    Ok(Stand { gateway, guarded, nginx, echo, _upstream: upstream, folder })
}

impl Stand {
    fn faces(&self) -> Vec<Face> {
        let gateway = self.gateway.as_ref().map(|(server, _)| server.address);
        let mut faces = faces(self.echo.address, Some(self.nginx.address), gateway);
        faces.extend(
            self.guarded.as_ref().map(|(server, key)| guarded(server.address, key.clone())),
        );
        faces
    }
}

/// Returns every face with the process charged with its CPU time.
fn targets(stand: &Stand) -> Vec<Target<'_>> {
    let charged = |face: &Face| match (face.name, &stand.gateway, &stand.guarded) {
        (DIRECT, ..) => &stand.echo.process,
        (GUARD, _, Some((guarded, _))) => &guarded.process,
        (NGINX, ..) | (_, None, _) => &stand.nginx.process,
        (_, Some((gateway, _)), _) => &gateway.process,
    };
    let faces = stand.faces().into_iter();
    faces.map(|face| Target { process: charged(&face), face }).collect()
}

fn setting(options: &Options, plan: Plan, nginx: &Nginx) -> String {
    let window = match options.calls {
        Some(calls) => format!("{calls} calls"),
        None => format!("{} ms", plan.window.as_millis()),
    };
    let eras = options.upstream_era.to_possible_value();
    format!(
        "{} rounds, a window is {window}; nginx has {} workers and {} KiB buffers; the gateway's upstream speaks {}",
        plan.rounds,
        nginx.workers,
        nginx.buffer_kib,
        eras.as_ref().map_or("?", |word| word.get_name()),
    )
}

/// Prints and writes the report; returns the exit code of the run.
fn finish(options: &Options, report: &Report) -> anyhow::Result<ExitCode> {
    std::io::stdout()
        .lock()
        .write_all(table::render(report).as_bytes())
        .context("print the table")?;
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", report.json()))
            .with_context(|| format!("write {}", file.display()))?;
    }
    let verdicts = report.verdicts();
    let ceiling = if options.debug { DEBUG_CEILING } else { MAX_RATIO };
    let over = verdicts
        .iter()
        .filter(|verdict| verdict.kind == FigureKind::Ratio)
        .any(|verdict| verdict.value.is_none_or(|ratio| ratio > ceiling));
    let judged = |verdict: &Verdict| options.strict || verdict.kind == FigureKind::Exact;
    let missed = verdicts.iter().any(|verdict| judged(verdict) && !verdict.met());
    let failed = over || missed || !report.faults().is_empty();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn progress(words: &str) {
    // Progress is only informative, so a failed write is ignored.
    drop(writeln!(std::io::stderr().lock(), "… {words}"));
}

pub fn machine() -> String {
    let cores = cores();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, name)| name);
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
