//! A process group that is signalled as a whole, but never after its id may have been reused.
//! Members that leave the group are not reached; use a guard for programs that must not escape.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};

/// Number of attempts to reap killed descendants that became children of the gateway.
const MAX_REAP_ATTEMPTS: usize = 100;
const REAP_INTERVAL: Duration = Duration::from_millis(5);

/// A process group, killed on drop.
#[derive(Debug)]
pub struct Group {
    id: Option<Pid>,
    /// The group id is valid until the leader has been waited for.
    live: Mutex<bool>,
}

impl Group {
    /// Creates the group of a process that was started as its leader.
    pub fn new(leader: u32) -> Self {
        let id = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self { id, live: Mutex::new(true) }
    }

    /// Sends a signal to all members.
    pub fn signal(&self, signal: Signal) {
        let live = self.live.lock();
        if *live && let Some(id) = self.id {
            // No such group: it has ended on its own.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills the remaining members for the last time. Call it when the leader has been waited for.
    pub fn finish(&self) {
        self.signal(Signal::KILL);
        *self.live.lock() = false;
    }

    /// Reaps killed descendants. They become children of the gateway only if it adopts orphans,
    /// like the first process of a container, and then no other process reaps them.
    pub async fn reap(&self) {
        let Some(id) = self.id else { return };
        for _ in 0..MAX_REAP_ATTEMPTS {
            match waitpgid(id, WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => tokio::time::sleep(REAP_INTERVAL).await,
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
