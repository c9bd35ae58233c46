//! Child processes of the benchmark: their output in files, their CPU time and memory from /proc,
//! and their end. Only own children are signalled, and each wait is bounded.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Nanoseconds of a tick, the unit of CPU times in /proc on every Linux architecture.
const TICK: u64 = 10_000_000;

pub struct Running {
    name: &'static str,
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Starts a command with its output and errors in `folder/name.log`.
    pub fn start(name: &'static str, command: &mut Command, folder: &Path) -> anyhow::Result<Self> {
        // Target names contain paths.
        let output = folder.join(format!("{}.log", name.replace('/', "")));
        let log = File::create(&output).with_context(|| format!("create {}", output.display()))?;
        let again = log.try_clone().context("share a log")?;
        let child = command
            // Backtraces would add to the measured cost.
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LIB_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .spawn()
            .with_context(|| format!("start {name} ({})", command.get_program().display()))?;
        Ok(Self { name, child, output })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the last lines of the process's output.
    pub fn said(&self) -> String {
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(8)..).unwrap_or_default().join("\n")
    }

    /// Returns an error if the process has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context("look at a process")? {
            bail!("{} ended with {status}: {}", self.name, self.said());
        }
        Ok(())
    }

    /// Returns the CPU time so far of the process and its descendants.
    pub fn cpu(&self) -> anyhow::Result<Cpu> {
        let mut cpu = Cpu::default();
        for pid in tree(self.child.id())? {
            cpu.add(pid);
        }
        Ok(cpu)
    }

    /// Returns the memory of the process without its descendants.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        Ok(Memory {
            rss: kib(&proc.join("status"), "VmRSS:")?,
            pss: kib(&proc.join("smaps_rollup"), "Pss:")?,
        })
    }

    /// Sends SIGTERM and waits; kills the process after `patience`.
    pub fn stop(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait().context("look at a process")? {
            return Ok(status);
        }
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a pid out of range")?;
        kill_process(pid, Signal::TERM).context("send SIGTERM")?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().context("look at a process")? {
                return Ok(status);
            }
            sleep(Duration::from_millis(10));
        }
        self.child.kill().context("kill a process")?;
        self.child.wait().context("wait for a process")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Errors cannot be reported; `stop` returns at once for an ended process.
        drop(self.stop(Duration::from_secs(5)));
    }
}

/// Returns whether a process ended with success, by SIGTERM, or with the corresponding exit code.
pub fn ended_well(status: ExitStatus) -> bool {
    let asked = Signal::TERM.as_raw();
    status.success() || status.signal() == Some(asked) || status.code() == Some(128 + asked)
}

#[derive(Clone, Copy)]
pub struct Memory {
    pub rss: u64,
    pub pss: u64,
}

/// CPU time at a moment: exact per live thread, and in ticks including ended threads.
#[derive(Default)]
pub struct Cpu {
    threads: HashMap<u32, u64>,
    ticks: u64,
}

impl Cpu {
    fn add(&mut self, pid: u32) {
        // A process or thread may end between listing and reading; it then adds no time.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = fields(&stat);
        let tick = |at: usize| fields.get(at).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
        self.ticks += tick(11) + tick(12);
        for thread in numbered(Path::new(&format!("/proc/{pid}/task"))) {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"))
                .unwrap_or_default();
            if let Some(nanos) = text.split(' ').next().and_then(|first| first.parse().ok()) {
                self.threads.insert(thread, nanos);
            }
        }
    }

    /// Returns the nanoseconds of CPU time since `earlier`, in ticks if a thread has ended since.
    pub fn since(&self, earlier: &Self) -> u64 {
        let by_ticks = self.ticks.saturating_sub(earlier.ticks) * TICK;
        if self.threads.is_empty()
            || earlier.threads.keys().any(|thread| !self.threads.contains_key(thread))
        {
            return by_ticks;
        }
        let now: u64 = self.threads.values().sum();
        now.saturating_sub(earlier.threads.values().sum())
    }
}

/// Returns a process and all its descendants.
fn tree(root: u32) -> anyhow::Result<Vec<u32>> {
    let parents: Vec<(u32, u32)> = numbered(Path::new("/proc"))
        .into_iter()
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, fields(&stat).get(1)?.parse().ok()?))
        })
        .collect();
    if parents.is_empty() {
        bail!("/proc shows no processes");
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
    }
    Ok(found)
}

/// Returns the fields of a stat line after the command name, which may contain spaces.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default()
}

fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn kib(file: &Path, key: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let figure = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    figure.with_context(|| format!("no {key} in {}", file.display()))
}

#[cfg(test)]
mod tests;
