//! Wake-ups for live views of request activity, per organisation of the callers or for the whole
//! gateway. They carry no details of the requests, which the audit trail has. Without subscribers a
//! report costs one atomic load.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Key of the channel of all organisations.
const EVERYWHERE: &str = "";
/// Time for which reports are counted without a subscriber, after a position was read.
const POSITION_PERIOD: Duration = Duration::from_secs(60);

/// Channels that signal that a request was decided on or has ended.
#[derive(Default)]
pub(crate) struct Activity {
    /// By the callers' organisation, or [`EVERYWHERE`].
    channels: Mutex<HashMap<Arc<str>, Channel>>,
    /// Whether there are channels.
    is_heard: AtomicBool,
}

struct Channel {
    /// Counts reports, from a random number.
    sender: watch::Sender<u64>,
    told: Option<Instant>,
    /// Kept until then without a subscriber.
    until: Instant,
}

/// A position in the reports of an organisation, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityPosition {
    /// Differs from the count at subscription if there were reports since.
    pub count: u64,
    /// Whether reports were not counted before.
    pub is_new: bool,
    /// The latest report.
    pub told: Option<Instant>,
}

impl Channel {
    fn new(now: Instant) -> Self {
        let start = RandomState::new().build_hasher().finish();
        Self { sender: watch::Sender::new(start), told: None, until: now }
    }

    fn is_unused(&self, now: Instant) -> bool {
        self.sender.receiver_count() == 0 && self.until <= now
    }
}

impl Activity {
    /// Subscribes to one organisation, or to all. Reports made in quick succession are coalesced.
    pub(crate) fn listen(&self, organisation: Option<&str>) -> watch::Receiver<u64> {
        self.with_channel(organisation, |channel, _, _| channel.sender.subscribe())
    }

    /// Returns the current position, from which a subscriber can continue for a while.
    pub(crate) fn position(&self, organisation: Option<&str>) -> ActivityPosition {
        self.with_channel(organisation, |channel, is_new, now| {
            channel.until = now + POSITION_PERIOD;
            let count = *channel.sender.borrow();
            ActivityPosition { count, is_new, told: channel.told }
        })
    }

    fn with_channel<T>(
        &self,
        organisation: Option<&str>,
        use_channel: impl FnOnce(&mut Channel, bool, Instant) -> T,
    ) -> T {
        let now = Instant::now();
        let key = organisation.unwrap_or(EVERYWHERE);
        let mut channels = self.channels.lock();
        self.is_heard.store(true, Ordering::Relaxed);
        channels.retain(|name, channel| **name == *key || !channel.is_unused(now));
        let is_new = !channels.contains_key(key);
        let channel = channels.entry(key.into()).or_insert_with(|| Channel::new(now));
        use_channel(channel, is_new, now)
    }

    /// Reports a request from a caller in this organisation.
    pub(crate) fn tell(&self, organisation: &str) {
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut channels = self.channels.lock();
        for key in [organisation, EVERYWHERE] {
            let Some(channel) = channels.get_mut(key) else { continue };
            channel.sender.send_modify(|count| *count = count.wrapping_add(1));
            channel.told = Some(now);
            if channel.is_unused(now) {
                channels.remove(key);
            }
        }
        self.is_heard.store(!channels.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
