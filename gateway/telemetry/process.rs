//! Resource usage of this process according to the kernel, read on demand if available.

use std::path::Path;

/// Processor time ticks per second: the constant `USER_HZ` on all supported Linux machines.
const TICKS_PER_SECOND: f64 = 100.0;
const FOLDER: &str = "/proc/self";

#[derive(Debug, PartialEq)]
pub(crate) struct ProcessUsage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) open_files: u64,
    /// `None` without a limit.
    pub(crate) max_files: Option<u64>,
}

impl ProcessUsage {
    pub(crate) fn read() -> Option<Self> {
        let folder = Path::new(FOLDER);
        let stat = read(&folder.join("stat"))?;
        let status = read(&folder.join("status"))?;
        let limits = read(&folder.join("limits"))?;
        Self::parse(&stat, &status, &limits, count_files(&folder.join("fd"))?)
    }

    fn parse(stat: &str, status: &str, limits: &str, open_files: u64) -> Option<Self> {
        // The program name, in parentheses, may contain any character.
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut times = after_name.split_whitespace().skip(11);
        let user: u64 = times.next()?.parse().ok()?;
        let system: u64 = times.next()?.parse().ok()?;
        let max_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        Some(Self {
            cpu_seconds: (user + system) as f64 / TICKS_PER_SECOND,
            resident_bytes: find_number(status, "VmRSS:")? * 1024,
            virtual_bytes: find_number(status, "VmSize:")? * 1024,
            threads: find_number(status, "Threads:")?,
            open_files,
            max_files: max_files.split_whitespace().next()?.parse().ok(),
        })
    }
}

fn find_number(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::disallowed_methods, reason = "what the kernel says of this process alone")]
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[allow(clippy::disallowed_methods, reason = "what the kernel says of this process alone")]
fn count_files(folder: &Path) -> Option<u64> {
    // The listing includes the folder's own handle.
    Some((std::fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests;
