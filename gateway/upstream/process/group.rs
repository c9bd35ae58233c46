//! A process group that is signalled as a whole, and never after its number may belong to somebody
//! else. Members that leave it are out of reach; whoever starts programs that must not, forbids
//! them to.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};

/// How often and how long apart killed descendants are looked for that became the gateway's own.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Dropping it kills what is left.
#[derive(Debug)]
pub struct Group {
    id: Option<Pid>,
    /// The number is ours as long as the leader has not been waited for.
    live: Mutex<bool>,
}

impl Group {
    /// Of the process that was started as the first of a group of its own.
    #[must_use]
    pub fn new(leader: u32) -> Self {
        let id = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self { id, live: Mutex::new(true) }
    }

    /// To all of the group.
    pub fn signal(&self, signal: Signal) {
        let live = self.live.lock();
        if *live && let Some(id) = self.id {
            // No such group: it has ended on its own.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills what is left, for the last time; call it when the leader has been waited for.
    pub fn finish(&self) {
        self.signal(Signal::KILL);
        *self.live.lock() = false;
    }

    /// Waits for killed descendants. They are the gateway's own children only where orphans become
    /// its children, as for the first process of a container; there, nobody else would ever wait
    /// for them.
    pub async fn reap(&self) {
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
