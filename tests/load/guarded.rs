//! The cost of guarding: the same call through a plain gateway, a guarded gateway (`guard.rs`), and
//! a guarded gateway without argument digests. Many short windows alternate, because the noise of
//! the machine outlasts them. Ratios are taken within a round, and their median is reported with
//! bounds.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::echo::Eras;
use crate::faces::{self, MERGED};
use crate::guard::{self, Guard};
use crate::measure::{Cell, Plan, Target, measure, median, median_within, pairs};
use crate::proxy::{self, Gateway};
use crate::report::{GUARDED_AT_MOST, OPEN};
use crate::run::{machine, program, progress};
use crate::wire::Face;

#[derive(clap::Args)]
pub struct Options {
    /// The gateway's program; `lockgate` beside this program by default
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Rounds, each with one window of each gateway in each scenario
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Length of a window in milliseconds
    #[arg(long, default_value_t = 200)]
    window: u64,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 when the target is missed
    #[arg(long)]
    strict: bool,
}

/// The CPU time of a guarded call as a multiple of an open call in the same scenario.
struct Ratio<'a> {
    open: &'a Cell,
    guarded: &'a Cell,
    median: Option<f64>,
    within: Option<(f64, f64)>,
}

impl Ratio<'_> {
    fn met(&self) -> bool {
        self.median.is_some_and(|ratio| ratio <= GUARDED_AT_MOST)
    }
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let program = program(options.bin.as_deref())?;
    let folder =
        tempfile::Builder::new().prefix("lockgate-load-").tempdir().context("make a folder")?;
    let echo = proxy::start_echo("echo", 1, Eras::Both, folder.path()).await?;
    let Guard { key, config, undigested } = guard::prepare(&program, folder.path())?;
    let gateway = |more: String| Gateway { program: program.clone(), upstream: echo.address, more };
    let open = gateway(String::new()).start("open", folder.path()).await?;
    let guarded = gateway(config).start("guarded", folder.path()).await?;
    let undigested = gateway(undigested).start("undigested", folder.path()).await?;
    let targets = [
        Target { face: Face { address: open.address, ..MERGED }, process: &open.process },
        Target { face: faces::guarded(guarded.address, key.clone()), process: &guarded.process },
        Target { face: faces::undigested(undigested.address, key), process: &undigested.process },
    ];
    let window = Duration::from_millis(options.window.clamp(10, 60_000));
    let plan = Plan { rounds: options.rounds.clamp(1, 1000), window, calls: u64::MAX };
    let cells = measure(&targets, plan, progress).await;
    let ratios = ratios(&cells);
    let text = if options.json { format!("{:#}\n", data(&ratios)) } else { table(plan, &ratios) };
    std::io::stdout().lock().write_all(text.as_bytes()).context("print the figures")?;
    let wrong: Vec<String> =
        cells.iter().filter(|cell| cell.wrong > 0).filter_map(|cell| cell.fault.clone()).collect();
    for words in &wrong {
        progress(&format!("wrong: {words}"));
    }
    let missed = options.strict && !ratios.iter().all(Ratio::met);
    Ok(if missed || !wrong.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn ratios(cells: &[Cell]) -> Vec<Ratio<'_>> {
    let open = |cell: &Cell| {
        cells.iter().find(|open| open.target == OPEN && open.scenario == cell.scenario)
    };
    let judged = cells.iter().filter(|cell| cell.target != OPEN);
    let ratio = |guarded| {
        let open = open(guarded)?;
        let ratios = pairs(guarded, open, |sample| sample.cpu_us, |of, with| of / with);
        Some(Ratio { open, guarded, median: median(ratios.clone()), within: median_within(ratios) })
    };
    judged.filter_map(ratio).collect()
}

fn table(plan: Plan, ratios: &[Ratio<'_>]) -> String {
    let mut text = format!(
        "{}\n{} rounds, a window is {} ms\n\n",
        machine(),
        plan.rounds,
        plan.window.as_millis()
    );
    text.push_str(
        "| body | conn | era | guarded | `/mcp`, µs/call | guarded | × | its median is within | at most | met |\n",
    );
    text.push_str("|---|---:|---|---|---:|---:|---:|---:|---:|---|\n");
    for ratio in ratios {
        let Ratio { open, guarded, median, within } = ratio;
        let scenario = guarded.scenario;
        let number = |value: Option<f64>, decimals| {
            value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let cpu = |cell: &Cell| number(cell.median(|sample| sample.cpu_us), 1);
        let met = if ratio.met() { "yes" } else { "NO" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {}–{} | {GUARDED_AT_MOST} | {met} |",
            scenario.body.word(),
            scenario.connections,
            scenario.era.word(),
            guarded.target,
            cpu(open),
            cpu(guarded),
            number(*median, 2),
            number(within.map(|(low, _)| low), 2),
            number(within.map(|(_, high)| high), 2),
        );
    }
    text
}

fn data(ratios: &[Ratio<'_>]) -> Value {
    let one = |ratio: &Ratio<'_>| {
        let scenario = ratio.guarded.scenario;
        json!({
            "target": ratio.guarded.target,
            "body": scenario.body.word(),
            "connections": scenario.connections,
            "era": scenario.era.word(),
            "open_cpu_us": ratio.open.median(|sample| sample.cpu_us),
            "cpu_us": ratio.guarded.median(|sample| sample.cpu_us),
            "ratio": ratio.median,
            "within": ratio.within.map(|(low, high)| [low, high]),
            "limit": GUARDED_AT_MOST,
            "met": ratio.met(),
            "wrong": ratio.open.wrong + ratio.guarded.wrong,
        })
    };
    json!({"machine": machine(), "calls": ratios.iter().map(one).collect::<Vec<_>>()})
}
