//! `limits.memory`: the memory available to the gateway according to the system, and the share for
//! messages. Reads only the system files that report memory limits.

use std::path::Path;

use super::Check;
use crate::source::read_bytes;

/// Bytes for the program itself, lists of servers, sessions and connections.
const BASE_BYTES: u64 = 64 << 20;
/// Default memory in bytes without a cgroup limit.
const WITHOUT_LIMIT: u64 = 512 << 20;
/// Minimum bytes for messages, regardless of the memory.
const MIN_MESSAGE_BYTES: u64 = 1 << 20;
/// Maximum bytes of a file that is read.
const MAX_FILE: u64 = 64 << 10;

impl Check<'_> {
    /// Returns the maximum bytes of messages. Half of the memory beside the program's own is
    /// reserved for copies of rewritten messages, connection buffers, and the allocator's overhead.
    pub fn bytes_in_flight(&mut self) -> usize {
        let limits = &self.root.limits;
        let share = limits.memory.map_or_else(|| share(default_memory(Path::new("/"))), share);
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        let given = limits.bytes_in_flight;
        if given == 0 {
            return share;
        }
        let path = "limits.bytes_in_flight";
        if given < self.root.http.body_bytes {
            let hint = "raise it, or lower `http.body_bytes`";
            self.error(path, "must not be less than `http.body_bytes`", hint);
        }
        if given > share && limits.memory.is_some() {
            let what =
                format!("must not be more than {share}, which `limits.memory` leaves for messages");
            self.error(path, what, "remove it, or raise `limits.memory`");
        } else if given > share {
            let what = "is more than the memory of this system leaves for messages";
            self.warning(path, what, "remove it, or set `limits.memory`");
        }
        given
    }
}

/// Returns the share of memory for messages.
fn share(memory: u64) -> u64 {
    (memory.saturating_sub(BASE_BYTES) / 2).max(MIN_MESSAGE_BYTES)
}

/// Returns the default memory: three quarters of the cgroup's limit, which child processes share.
fn default_memory(root: &Path) -> u64 {
    match (cgroup_limit(root), machine_memory(root)) {
        (Some(limit), Some(machine)) if limit < machine => limit / 4 * 3,
        (Some(limit), None) => limit / 4 * 3,
        (_, Some(machine)) => WITHOUT_LIMIT.min(machine / 2),
        (None, None) => WITHOUT_LIMIT,
    }
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = read(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Returns the minimum of the limits of this process's cgroup and its ancestors, for both versions.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let Some((_, rest)) = line.split_once(':') else { continue };
        let Some((controllers, path)) = rest.split_once(':') else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A container may see its host's path here, with its own group at the root.
        let path = Path::new(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let Some(text) = read(&root.join(mount).join(group).join(file)) else { continue };
            let Ok(limit) = text.trim().parse() else { continue };
            least = Some(least.map_or(limit, |least| least.min(limit)));
        }
    }
    least
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(read_bytes(path, MAX_FILE).ok()?).ok()
}

#[cfg(test)]
mod tests;
