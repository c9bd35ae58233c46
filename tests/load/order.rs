//! The `order` command: writes the functions that a forwarded call runs, each behind its most
//! frequent caller, for the linker (`gateway/order.txt`, read by `build.rs`). Counted by callgrind.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::allocations;
use crate::faces::MERGED;
use crate::measure::BodySize;
use crate::process::{Running, ended_well};
use crate::proxy::{self, Server, VALGRIND_READY_TIMEOUT};
use crate::run::progress;
use crate::train;
use crate::wire::{Era, Face};

/// Calls of each era at each gateway, half of them over several connections.
const CALLS: u64 = 400;
const CONNECTIONS: usize = 8;
/// Instructions below which a function is not part of a call.
const MIN_COST: u64 = 5 * CALLS;
/// Functions below which a program has lost its symbols.
const MIN_FUNCTIONS: usize = 200;

#[derive(clap::Args)]
pub struct Options {
    /// An optimised program of the gateway, of each profile
    #[arg(long, required = true)]
    bin: Vec<PathBuf>,
    /// The file to write
    #[arg(long, default_value = "gateway/order.txt")]
    out: PathBuf,
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(allocations::possible(), "valgrind is needed to count: install the package valgrind");
    let mut names = Vec::new();
    let mut known = HashSet::new();
    for program in &options.bin {
        let profile = profile(program).await?;
        let found = order(&profile);
        progress(&format!("{}: {} functions", program.display(), found.len()));
        ensure!(
            found.len() >= MIN_FUNCTIONS,
            "{} has no symbols: name a program that is not stripped",
            program.display()
        );
        names.extend(found.into_iter().filter(|name| known.insert(name.clone())));
    }
    let text = format!("{}\n", names.join("\n"));
    std::fs::write(&options.out, text).with_context(|| options.out.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Counts calls of an open gateway and of one with policies, in both eras.
async fn profile(program: &Path) -> anyhow::Result<Profile> {
    let stand = train::Stand::prepare(program).await?;
    let mut profile = Profile::default();
    for (name, gateway, key) in &stand.gateways {
        progress(&format!("calls of the {name} gateway under callgrind"));
        let address = proxy::free_address()?;
        let face = Face { address, key: key.clone(), ..MERGED };
        let inner = gateway.command(name, address, stand.folder.path())?;
        let counts = stand.folder.path().join(format!("{name}.callgrind"));
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--instr-atstart=no", "--demangle=no"]);
        command
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(inner.get_program())
            .args(inner.get_args());
        let process = Running::start(name, &mut command, stand.folder.path())?;
        let ready = proxy::ready(process, address, Some("/readyz"), VALGRIND_READY_TIMEOUT);
        let mut server = ready.await?;
        // The first calls and the end of the program run code that others do not.
        for era in Era::BOTH {
            call(&face, era, 1).await?;
        }
        count(&server, "--instr=on")?;
        for era in Era::BOTH {
            for connections in [1, CONNECTIONS] {
                call(&face, era, connections).await?;
            }
        }
        count(&server, "--instr=off")?;
        let status = server.process.stop(Duration::from_secs(60))?;
        ensure!(ended_well(status), "the program ended with {status} under callgrind");
        let counts = std::fs::read_to_string(&counts).context("read callgrind's counts")?;
        profile.add(&counts);
    }
    Ok(profile)
}

/// Starts or stops counting in a program under callgrind.
fn count(server: &Server, switch: &str) -> anyhow::Result<()> {
    let id = server.process.id().to_string();
    let control = Command::new("callgrind_control").args([switch, &id]).output();
    ensure!(control.context("run callgrind_control")?.status.success(), "callgrind_control");
    Ok(())
}

async fn call(face: &Face, era: Era, connections: usize) -> anyhow::Result<()> {
    train::call(face, era, connections, BodySize::Small, CALLS / 2).await
}

/// Instructions of functions, and numbers of calls between them, by their symbols.
#[derive(Default)]
struct Profile {
    costs: HashMap<String, u64>,
    calls: HashMap<(String, String), u64>,
}

impl Profile {
    /// Adds a file of callgrind, in which `(7) name` defines a name and `(7)` repeats it.
    fn add(&mut self, text: &str) {
        let mut names = HashMap::new();
        let (mut function, mut callee) = (String::new(), String::new());
        let mut count = None;
        for line in text.lines() {
            if let Some(word) = line.strip_prefix("fn=") {
                function = symbol(&mut names, word);
            } else if let Some(word) = line.strip_prefix("cfn=") {
                callee = symbol(&mut names, word);
            } else if let Some(words) = line.strip_prefix("calls=") {
                count = words.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                // The line behind `calls=` has the inclusive cost of the callee.
                if let Some(count) = count.take() {
                    *self.calls.entry((function.clone(), callee.clone())).or_default() += count;
                } else if let Some(cost) =
                    line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok())
                {
                    *self.costs.entry(function.clone()).or_default() += cost;
                }
            }
        }
    }
}

/// Returns the symbol of a function. `'2` marks the levels of a recursion.
fn symbol(names: &mut HashMap<String, String>, word: &str) -> String {
    let (id, name) = word.split_once(' ').unwrap_or((word, ""));
    if name.is_empty() {
        return names.get(id).cloned().unwrap_or_default();
    }
    let name = name.split('\'').next().unwrap_or(name).to_owned();
    names.insert(id.to_owned(), name.clone());
    name
}

/// Returns the functions of calls, in chains of callers and callees (Pettis and Hansen, 1990). The
/// chains with most instructions are first.
fn order(profile: &Profile) -> Vec<String> {
    let hot =
        profile.costs.iter().filter(|(name, cost)| **cost >= MIN_COST && name.starts_with('_'));
    let mut chains: HashMap<&str, Vec<&str>> =
        hot.map(|(name, _)| (name.as_str(), vec![name.as_str()])).collect();
    let mut chain_of: HashMap<&str, &str> = chains.keys().map(|name| (*name, *name)).collect();
    let mut calls: Vec<_> = profile.calls.iter().collect();
    calls.sort_by(|(one, count), (other, others)| others.cmp(count).then(one.cmp(other)));
    for ((caller, callee), _) in calls {
        let (Some(&front), Some(&back)) =
            (chain_of.get(caller.as_str()), chain_of.get(callee.as_str()))
        else {
            continue;
        };
        // A chain is appended to its caller's if the callee is its first function.
        if front == back || back != callee {
            continue;
        }
        let moved = chains.remove(back).unwrap_or_default();
        for name in &moved {
            chain_of.insert(name, front);
        }
        chains.entry(front).or_default().extend(moved);
    }
    let cost =
        |chain: &Vec<&str>| chain.iter().filter_map(|name| profile.costs.get(*name)).sum::<u64>();
    let mut chains: Vec<_> = chains.into_values().collect();
    chains.sort_by_cached_key(|chain| {
        (std::cmp::Reverse(cost(chain)), chain.first().copied().map(str::to_owned))
    });
    chains.concat().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
