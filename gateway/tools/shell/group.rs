//! A process group that is signalled as a whole, and never after its number may belong to somebody else. The filter of
//! system calls keeps its members in it.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};

/// How often and how long apart killed descendants are looked for that became the gateway's own.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Dropping it kills what is left.
pub(super) struct Group {
    id: Option<Pid>,
    /// The number is ours as long as the leader has not been waited for.
    live: Mutex<bool>,
}

impl Group {
    pub(super) fn new(leader: Option<u32>) -> Self {
        let id = leader.and_then(|leader| i32::try_from(leader).ok()).and_then(Pid::from_raw);
        Self { id, live: Mutex::new(true) }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let live = self.live.lock();
        if *live && let Some(id) = self.id {
            // No such group: it has ended on its own.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills what is left, for the last time.
    pub(super) fn finish(&self) {
        self.signal(Signal::KILL);
        *self.live.lock() = false;
    }

    /// Waits for killed descendants where orphans become the gateway's children, as for the first process of a container.
    pub(super) async fn reap(&self) {
        let Some(id) = self.id else { return };
        for _ in 0..LOOKS {
            match waitpgid(id, WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => tokio::time::sleep(PAUSE).await,
                Err(_) => return,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.finish();
    }
}
