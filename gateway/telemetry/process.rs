//! Resource usage of this process according to the kernel, read on demand if available.

use std::path::Path;

/// Name and help of a metric.
type Named = (&'static str, &'static str);

/// Processor time ticks per second: the constant `USER_HZ` on all supported Linux machines.
const TICKS_PER_SECOND: f64 = 100.0;
const FOLDER: &str = "/proc/self";

/// Returns the process metrics under their conventional Prometheus names.
pub(crate) fn read_usage() -> Option<Vec<(Named, f64)>> {
    let folder = Path::new(FOLDER);
    let stat = read(&folder.join("stat"))?;
    let status = read(&folder.join("status"))?;
    let limits = read(&folder.join("limits"))?;
    parse(&stat, &status, &limits, count_files(&folder.join("fd"))?)
}

fn parse(stat: &str, status: &str, limits: &str, open_files: u64) -> Option<Vec<(Named, f64)>> {
    // The program name, in parentheses, may contain any character.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    let cpu_seconds = (user + system) as f64 / TICKS_PER_SECOND;
    let resident = find_number(status, "VmRSS:")? * 1024;
    let virtual_bytes = find_number(status, "VmSize:")? * 1024;
    let mut usage = vec![
        (("process_cpu_seconds_total", "CPU time of the process"), cpu_seconds),
        (("process_resident_memory_bytes", "Resident memory"), resident as f64),
        (("process_virtual_memory_bytes", "Virtual memory"), virtual_bytes as f64),
        (("process_threads", "Threads"), find_number(status, "Threads:")? as f64),
        (("process_open_fds", "Open file descriptors"), open_files as f64),
    ];
    // Not a number without a limit.
    if let Some(limit) = find_number(limits, "Max open files") {
        usage.push((("process_max_fds", "Maximum number of open file descriptors"), limit as f64));
    }
    Some(usage)
}

fn find_number(lines: &str, name: &str) -> Option<u64> {
    let rest = lines.lines().find_map(|line| line.strip_prefix(name))?;
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
