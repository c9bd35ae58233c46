//! Wake-ups for live views of request activity, per organisation of the callers or for the whole
//! gateway. They carry no details of the requests, which the audit trail has. Without subscribers a
//! report costs one atomic load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Channels that signal that a request was decided on or has ended.
pub(crate) struct Activity {
    everywhere: watch::Sender<()>,
    /// By the callers' organisation, for organisations that have subscribers.
    organisations: Mutex<HashMap<Arc<str>, watch::Sender<()>>>,
    /// Whether there are subscribers, as of the last `listen` or `tell`.
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
    /// Subscribes to one organisation, or to all. Reports made in quick succession are coalesced.
    pub(crate) fn listen(&self, organisation: Option<&str>) -> watch::Receiver<()> {
        let mut organisations = self.organisations.lock();
        self.is_heard.store(true, Ordering::Relaxed);
        let Some(organisation) = organisation else { return self.everywhere.subscribe() };
        organisations.retain(|_, channel| channel.receiver_count() > 0);
        let channel = organisations.entry(organisation.into()).or_default();
        channel.subscribe()
    }

    /// Reports a request from a caller in this organisation.
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
