//! A gateway with thousands of integrations: a store is filled over the REST API, and a gateway is
//! started on it while some organisations use their integrations. The cost of the others is
//! measured against a gateway with a single organisation. Incomplete lists are errors.

mod api;
mod fill;
mod watch;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::echo::Eras;
use crate::measure::{Cell, Plan, Target, measure, median, median_within, pairs};
use crate::proxy::{self, Gateway, Server};
use crate::run::{self, machine, progress};
use crate::wire::Face;
use api::Api;
use fill::Plenty;

/// Limit on the 99th percentile of an organisation's list, in milliseconds.
const LIST_MS: f64 = 50.0;
/// Limit on the time until a change is effective, in milliseconds.
const EFFECT_MS: f64 = 1000.0;
/// Limit on the CPU time of a call relative to a gateway without the other organisations.
const MAX_CPU_RATIO: f64 = 1.1;
/// Time after its last change at which an integration no longer counts as new.
const QUIET_PERIOD: Duration = Duration::from_secs(61);
/// Duration over which the idle CPU time is measured.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Options {
    /// The gateway's program; `lockgate` beside this program by default, like `fixture-server`
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Organisations
    #[arg(long, default_value_t = 1000)]
    organisations: usize,
    /// Integrations of each
    #[arg(long, default_value_t = 10)]
    integrations: usize,
    /// Organisations that use theirs
    #[arg(long, default_value_t = 5)]
    used: usize,
    /// An empty database of PostgreSQL instead of a file of SQLite
    #[arg(long)]
    store_url: Option<String>,
    /// Rounds of windows in which the CPU of calls is measured
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Exit with 1 when a target is missed
    #[arg(long)]
    strict: bool,
}

impl Options {
    fn plenty(&self) -> Plenty {
        let organisations = self.organisations.clamp(1, 10_000);
        Plenty {
            organisations,
            integrations: self.integrations.clamp(1, 100),
            used: self.used.clamp(1, organisations),
        }
    }
}

/// The servers beside the gateways, and the folder of all output.
struct Stand {
    // Drop order: the folder last.
    fixtures: Vec<Server>,
    echo: Server,
    program: PathBuf,
    keys: Keys,
    folder: TempDir,
}

/// API keys: of the operator, and of a member of each active organisation.
struct Keys {
    operator: String,
    members: Vec<String>,
}

/// A figure and whether it is within its limit.
struct Figure {
    what: String,
    value: String,
    is_met: bool,
}

impl Figure {
    fn of(what: impl Into<String>, value: String) -> Self {
        Self { what: what.into(), value, is_met: true }
    }

    fn judged(what: impl Into<String>, value: String, is_met: bool) -> Self {
        Self { what: what.into(), value, is_met }
    }
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let plenty = options.plenty();
    let stand = Stand::start(options, plenty).await?;
    let store = match &options.store_url {
        Some(url) => format!("url: {url:?}"),
        None => format!("file: {:?}", stand.folder.path().join("full.db").display().to_string()),
    };
    let alone = format!("file: {:?}", stand.folder.path().join("alone.db").display().to_string());
    let mut figures = Vec::new();
    fill_stores(&stand, plenty, &store, &alone, &mut figures).await?;
    let full = start_full(&stand, &store, plenty, &mut figures).await?;
    measure_full(&stand, &full, plenty, &mut figures).await?;
    let alone = stand.gateway(&alone).start("alone", stand.folder.path()).await?;
    measure_calls(&stand, [&alone, &full], options, plenty, &mut figures).await?;
    let shown = table(options, plenty, &figures);
    std::io::stdout().lock().write_all(shown.as_bytes()).context("print the figures")?;
    let is_missed = figures.iter().any(|figure| !figure.is_met);
    Ok(if options.strict && is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Stand {
    async fn start(options: &Options, plenty: Plenty) -> anyhow::Result<Self> {
        let program = run::program(options.bin.as_deref())?;
        let temporary = tempfile::Builder::new().prefix("lockgate-scale-").tempdir();
        let folder = temporary.context("make a folder")?;
        let echo = proxy::start_echo("echo", fill::TOOLS, Eras::Both, folder.path()).await?;
        let mut fixtures = Vec::new();
        for _ in 1..plenty.integrations {
            fixtures.push(start_fixture(&program, folder.path()).await?);
        }
        let keys = make_keys(&program, plenty, folder.path())?;
        Ok(Self { fixtures, echo, program, keys, folder })
    }

    /// Returns a gateway with a store, and with loopback addresses permitted to organisations.
    fn gateway(&self, store: &str) -> Gateway {
        let more = format!(
            "auth: {{ keys_file: keys.yaml }}\negress: {{ organisations: local }}\n\
             store: {{ {store} }}\n"
        );
        Gateway { program: self.program.clone(), upstream: self.echo.address, more }
    }
}

/// Starts a server for the integrations in use.
async fn start_fixture(program: &Path, folder: &Path) -> anyhow::Result<Server> {
    let fixture = program.with_file_name("fixture-server");
    ensure!(fixture.exists(), "no {}: run tests/support/build", fixture.display());
    let address = proxy::free_address()?;
    let mut command = Command::new(fixture);
    command.arg("--http").arg(address.to_string());
    let process = crate::process::Running::start("fixture", &mut command, folder)?;
    proxy::ready(process, address, None, Duration::from_secs(20)).await
}

fn make_keys(program: &Path, plenty: Plenty, folder: &Path) -> anyhow::Result<Keys> {
    let operator = make_key(program, folder, &["operator", "--role", "operator"])?;
    let mut members = Vec::new();
    for at in 0..plenty.used {
        let organisation = fill::organisation(at);
        members.push(make_key(program, folder, &[&organisation, "--organisation", &organisation])?);
    }
    Ok(Keys { operator, members })
}

fn make_key(program: &Path, folder: &Path, words: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(["keys", "create"]).args(words).args(["--json", "--file", "keys.yaml"]);
    let made = command.current_dir(folder).output().context("run `lockgate keys create`")?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "`lockgate keys create`: {said}");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).context("read the key")?;
    Ok(made.get("key").and_then(|key| key.as_str()).context("no key")?.to_owned())
}

/// Fills both stores, and waits until no integration counts as new.
async fn fill_stores(
    stand: &Stand,
    plenty: Plenty,
    full: &str,
    alone: &str,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    for (store, plenty) in [(full, plenty), (alone, plenty.of_one())] {
        let gateway = stand.gateway(store).start("fill", stand.folder.path()).await?;
        let mut api = Api::connect(gateway.address, &stand.keys.operator).await?;
        let began = Instant::now();
        fill::fill(&mut api, plenty, stand).await?;
        if plenty.organisations > 1 {
            let rate = plenty.count() as f64 / began.elapsed().as_secs_f64();
            let words = format!("{} integrations stored over REST", plenty.count());
            figures.push(Figure::of(words, format!("{rate:.0} a second")));
        }
    }
    progress("wait until nothing is new");
    tokio::time::sleep(QUIET_PERIOD).await;
    Ok(())
}

async fn start_full(
    stand: &Stand,
    store: &str,
    plenty: Plenty,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<Server> {
    progress("start on the full store");
    let began = Instant::now();
    let full = stand.gateway(store).start("full", stand.folder.path()).await?;
    let took = began.elapsed().as_secs_f64();
    figures.push(Figure::of("start until ready", format!("{took:.2} s")));
    let memory = full.process.memory()?.rss >> 10;
    figures.push(Figure::of("resident, nothing used yet", format!("{memory} MiB")));
    let before = full.process.cpu()?;
    tokio::time::sleep(IDLE_PERIOD).await;
    let idle = full.process.cpu()?.since(&before) as f64 / IDLE_PERIOD.as_nanos() as f64;
    figures.push(Figure::of("CPU while nobody calls", format!("{:.2} % of a core", idle * 100.0)));
    let mut api = Api::connect(full.address, &stand.keys.operator).await?;
    let known = api.count_integrations(&fill::organisation(plenty.organisations - 1)).await?;
    ensure!(known == plenty.integrations, "{known} integrations in the last organisation");
    Ok(full)
}

async fn measure_full(
    stand: &Stand,
    full: &Server,
    plenty: Plenty,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    progress("lists");
    let lists = watch::lists(full.address, &stand.keys.members, plenty.integrations).await?;
    let tools = lists.tools;
    let first = lists.first_ms;
    figures
        .push(Figure::of("the first list of an organisation, slowest", format!("{first:.0} ms")));
    let [half, most] = lists.warm_ms;
    let words = format!("`tools/list` of one organisation ({tools} tools), p50 / p99");
    figures.push(Figure::judged(words, format!("{half:.2} / {most:.2} ms"), most <= LIST_MS));
    let memory = full.process.memory()?.rss >> 10;
    let words = format!("resident, {} integrations in use", plenty.used * plenty.integrations);
    figures.push(Figure::of(words, format!("{memory} MiB")));
    progress("changes");
    let member = stand.keys.members.first().context("nobody uses anything")?;
    let changes = watch::changes(full.address, &stand.keys.operator, member, stand).await?;
    for (words, ms) in [
        ("POST of an integration until its answer, p50 / slowest", changes.answer_ms),
        ("POST of an integration until its tool was called, p50 / slowest", changes.called_ms),
        ("DELETE until the tool is gone, p50 / slowest", changes.gone_ms),
    ] {
        let [half, most] = ms;
        figures.push(Figure::judged(words, format!("{half:.0} / {most:.0} ms"), most <= EFFECT_MS));
    }
    Ok(())
}

/// Measures the cost of calls to an organisation's own integration.
async fn measure_calls(
    stand: &Stand,
    [alone, full]: [&Server; 2],
    options: &Options,
    plenty: Plenty,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    let member = stand.keys.members.first().context("nobody uses anything")?;
    // The first caller waits for the servers to connect; the measured windows do not.
    watch::lists(alone.address, std::slice::from_ref(member), plenty.integrations).await?;
    let face = |name, server: &Server| Face {
        name,
        address: server.address,
        path: "/mcp",
        tool: fill::ECHO,
        key: Some(member.clone()),
    };
    let targets = [
        Target { face: face("alone", alone), process: &alone.process },
        Target { face: face("full", full), process: &full.process },
    ];
    let window = Duration::from_millis(200);
    let rounds = options.rounds.clamp(1, 1000);
    let cells = measure(&targets, Plan { rounds, window, calls: u64::MAX }, progress).await;
    for cell in &cells {
        ensure!(cell.wrong == 0, "{}: {}", cell.target, cell.fault.as_deref().unwrap_or("wrong"));
    }
    for full in cells.iter().filter(|cell| cell.target == "full") {
        let is_same = |cell: &&Cell| cell.target == "alone" && cell.scenario == full.scenario;
        let Some(alone) = cells.iter().find(is_same) else { continue };
        figures.push(compare_calls(alone, full));
    }
    Ok(())
}

fn compare_calls(alone: &Cell, full: &Cell) -> Figure {
    let ratios = pairs(full, alone, |sample| sample.cpu_us, |full, alone| full / alone);
    let ratio = median(ratios.clone()).unwrap_or(f64::NAN);
    let [alone_us, full_us] = [alone, full].map(|cell| cell.median(|sample| sample.cpu_us));
    let within = median_within(ratios);
    let within = within.map_or(String::new(), |(low, high)| format!(", {low:.2} to {high:.2}"));
    let scenario = full.scenario;
    let words = format!(
        "CPU of a call, {}, {} connections, {}",
        scenario.era.word(),
        scenario.connections,
        scenario.body.word()
    );
    let value = format!(
        "{:.1} µs, {:.1} µs without the others (× {ratio:.2}{within})",
        full_us.unwrap_or(f64::NAN),
        alone_us.unwrap_or(f64::NAN)
    );
    Figure::judged(words, value, ratio <= MAX_CPU_RATIO)
}

fn table(options: &Options, plenty: Plenty, figures: &[Figure]) -> String {
    let store = if options.store_url.is_some() { "PostgreSQL" } else { "SQLite" };
    let mut text = format!(
        "{}\n{} organisations of {} integrations in {store}; {} integrations in use\n\n| figure | value | met |\n|---|---|---|\n",
        machine(),
        plenty.organisations,
        plenty.integrations,
        plenty.used * plenty.integrations,
    );
    for Figure { what, value, is_met } in figures {
        let met = if *is_met { "yes" } else { "NO" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {what} | {value} | {met} |");
    }
    text
}
