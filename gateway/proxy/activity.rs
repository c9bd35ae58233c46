//! That requests were decided on or have ended, for those who look at it as it happens: in the
//! organisation of their callers, or everywhere. Nothing is told of the requests themselves, which
//! the audit trail is asked for. While nobody listens it costs a look.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// See the module.
pub(crate) struct Activity {
    everywhere: watch::Sender<()>,
    /// By the organisation of callers: of those that somebody listens in.
    organisations: Mutex<HashMap<Arc<str>, watch::Sender<()>>>,
    /// Somebody listens, or did a moment ago.
    is_heard: AtomicBool,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            everywhere: watch::Sender::new(()),
            organisations: Mutex::default(),
            is_heard: AtomicBool::new(false),
        }
    }
}

impl Activity {
    /// From now on, in one organisation or everywhere. Many at once are one.
    pub(crate) fn listen(&self, organisation: Option<&str>) -> watch::Receiver<()> {
        let mut organisations = self.organisations.lock();
        self.is_heard.store(true, Ordering::Relaxed);
        let Some(organisation) = organisation else { return self.everywhere.subscribe() };
        organisations.retain(|_, channel| channel.receiver_count() > 0);
        let channel = organisations.entry(organisation.into()).or_default();
        channel.subscribe()
    }

    /// Tells of a request by somebody of this organisation.
    pub(crate) fn tell(&self, organisation: &str) {
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        let mut organisations = self.organisations.lock();
        if let Some(channel) = organisations.get(organisation) {
            channel.send_replace(());
            if channel.receiver_count() == 0 {
                organisations.remove(organisation);
            }
        }
        self.everywhere.send_replace(());
        let is_heard = !organisations.is_empty() || self.everywhere.receiver_count() > 0;
        self.is_heard.store(is_heard, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
