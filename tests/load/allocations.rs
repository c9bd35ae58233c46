//! Exact heap allocations per call: the difference between valgrind runs with few and with many
//! calls. Counts calls of malloc, and fails for programs with an allocator that valgrind cannot
//! intercept.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::generate::{Fleet, Limit};
use crate::measure::BodySize;
use crate::process::{Running, ended_well};
use crate::proxy::{self, VALGRIND_READY_TIMEOUT};
use crate::wire::{Era, Face};

/// Calls of each era in every run.
const CALLS_PER_ERA: u64 = 200;

/// Heap use per call in an era.
#[derive(Clone, Copy)]
pub struct PerCall {
    pub allocations: f64,
    pub bytes: f64,
}

/// A program to run under valgrind, and the endpoint to call.
pub struct Program<'a> {
    pub name: &'static str,
    pub path: &'static str,
    pub tool: &'static str,
    pub ready: Option<&'static str>,
    pub command: &'a dyn Fn(SocketAddr) -> anyhow::Result<Command>,
}

/// Returns whether valgrind is installed.
pub fn possible() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Counts the allocations per call in the modern and in the legacy era.
pub async fn count(
    program: &Program<'_>,
    calls: u64,
    folder: &Path,
) -> anyhow::Result<[PerCall; 2]> {
    let (modern, took) = heap(program, [calls, 0], Duration::ZERO, folder).await?;
    let (legacy, legacy_took) = heap(program, [0, calls], Duration::ZERO, folder).await?;
    // Work in the background allocates too, the more the longer the calls take.
    let (base, _) = heap(program, [0, 0], took, folder).await?;
    let (legacy_base, _) = heap(program, [0, 0], legacy_took, folder).await?;
    let per_call = |heap: Heap, base: Heap| -> anyhow::Result<PerCall> {
        let each = |more: u64, less: u64| (more as f64 - less as f64) / calls as f64;
        let found = PerCall {
            allocations: each(heap.allocations, base.allocations),
            bytes: each(heap.bytes, base.bytes),
        };
        ensure!(
            found.allocations >= 0.5,
            "valgrind sees no allocations: the program does not use malloc"
        );
        Ok(found)
    };
    Ok([per_call(modern, base)?, per_call(legacy, legacy_base)?])
}

#[derive(Debug, PartialEq)]
struct Heap {
    allocations: u64,
    bytes: u64,
}

/// Runs the program once with `CALLS_PER_ERA + more` calls of each era, and `idle` without calls.
/// Returns its heap use, and the estimated time of the calls in `more`.
async fn heap(
    program: &Program<'_>,
    more: [u64; 2],
    idle: Duration,
    folder: &Path,
) -> anyhow::Result<(Heap, Duration)> {
    let address = proxy::free_address()?;
    let report = folder.join("valgrind.log");
    let inner = (program.command)(address)?;
    let mut command = Command::new("valgrind");
    // Only the allocation count is needed, so error detection is off.
    command.args([
        "--tool=memcheck",
        "--leak-check=no",
        "--undef-value-errors=no",
        "--num-callers=1",
    ]);
    command
        .arg(format!("--log-file={}", report.display()))
        .arg(inner.get_program())
        .args(inner.get_args());
    let process = Running::start(program.name, &mut command, folder)?;
    let mut server = proxy::ready(process, address, program.ready, VALGRIND_READY_TIMEOUT).await?;
    let face =
        Face { name: program.name, address, path: program.path, tool: program.tool, key: None };
    let mut took = Duration::ZERO;
    for (era, more) in Era::BOTH.into_iter().zip(more) {
        let mut fleet = Fleet::connect(&face, era, 1, &BodySize::Small.text()).await?;
        let calls = CALLS_PER_ERA + more;
        let began = Instant::now();
        let window = fleet.drive(Limit { time: Duration::from_secs(120), calls }).await?;
        if let Some(fault) = window.fault {
            bail!("a wrong answer under valgrind: {fault}");
        }
        ensure!(
            window.nanos.len() as u64 == calls,
            "{} of {calls} calls in time",
            window.nanos.len()
        );
        took += began.elapsed().mul_f64(more as f64 / calls as f64);
        fleet.close().await?;
    }
    tokio::time::sleep(idle).await;
    let status = server.process.stop(Duration::from_secs(60))?;
    ensure!(ended_well(status), "the program ended with {status} under valgrind");
    let heap = parse(&std::fs::read_to_string(&report).context("read valgrind's report")?)?;
    Ok((heap, took))
}

/// Parses `total heap usage: 1,234 allocs, 1,200 frees, 56,789 bytes allocated`.
fn parse(report: &str) -> anyhow::Result<Heap> {
    let line = report
        .lines()
        .rev()
        .find_map(|line| line.split_once("total heap usage: "))
        .context("no heap summary")?;
    let figures: Vec<u64> = line
        .1
        .split(", ")
        .filter_map(|part| part.split(' ').next()?.replace(',', "").parse().ok())
        .collect();
    match figures.as_slice() {
        [allocations, _, bytes] => Ok(Heap { allocations: *allocations, bytes: *bytes }),
        _ => bail!("a heap summary of another shape: {}", line.1),
    }
}

#[cfg(test)]
mod tests;
