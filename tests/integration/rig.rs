//! The test harness: the gateway as a process, scripted upstreams, and a client that sends exact
//! bytes.

pub mod authority;
pub mod client;
pub mod collector;
pub mod either;
pub mod gate;
pub mod issuer;
pub mod liar;
pub mod schema;
pub mod upstream;

use std::time::{Duration, Instant};

pub use client::{Answer, Stream};
pub use either::Client;
pub use gate::{Gate, Session, fixture, program};
pub use serde_json::{Value, json};
pub use upstream::{HeardMessage, Say, Upstream};

/// Limit on waiting for an immediate event. Virtual machines may stand still for ten seconds.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Polls until `check` returns a value; panics with `what` on a timeout.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(began.elapsed() < EVENT_TIMEOUT, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns whether a thread of a process is alive, and not a zombie. The first thread of an ended
/// process can be a zombie while others still hold its pipes open.
pub fn alive(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        state.is_some_and(|state| state != "Z" && state != "X")
    })
}

/// Returns the living children of a process, with each guard replaced by its own children.
pub fn children(pid: u32) -> Vec<u32> {
    let is_guard = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.trim_end().ends_with("-guard"))
    };
    let own = own_children(pid);
    own.into_iter()
        .flat_map(|child| if is_guard(&child) { own_children(child) } else { vec![child] })
        .collect()
}

fn own_children(pid: u32) -> Vec<u32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&child| parent(child) == Some(pid) && alive(child)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// Sends a signal to a process started by the test or by its gateway.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    let _ = rustix::process::kill_process(pid, signal);
}
