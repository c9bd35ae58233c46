//! Results of forms, kept for the page that the browser is redirected to, so that going back or
//! reloading submits nothing again. They are held in memory, bounded, and visible only to their
//! visitor.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use lockgate_admission::spawn;
use lockgate_text::hex;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::call_outcome::CallOutcome;
use super::diagnosis::Severity;
use super::form::Fields;
use super::render::show_text;
use super::sessions::random;
use crate::api::call::{CallMessages, CallProgress, MessageLog};

/// Maximum number of results of all visitors; the oldest are dropped.
const MAX_RESULTS: usize = 256;
/// Maximum total size; the oldest results are dropped.
const MAX_BYTES: usize = 32 << 20;
/// Size of a result beside its texts, in bytes.
const BASE_BYTES: usize = 1 << 10;

#[derive(Clone)]
pub(crate) enum Kept {
    Notice(Notice),
    Call(Arc<KeptCall>),
}

#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

struct Entry {
    /// The unmasked token of the visitor's forms.
    owner: String,
    name: String,
    kept: Kept,
}

/// The stored results of all visitors.
#[derive(Default)]
pub(crate) struct Results(Mutex<VecDeque<Entry>>);

impl Kept {
    fn bytes(&self) -> usize {
        BASE_BYTES
            + match self {
                Self::Notice(notice) => notice.text.len(),
                Self::Call(call) => call.bytes(),
            }
    }
}

impl Results {
    /// Stores a result and returns its name.
    pub(crate) fn keep(&self, owner: &str, kept: Kept) -> String {
        // Without random bytes the result is lost, and nothing else.
        let Ok(name) = random::<12>() else { return String::new() };
        let name = hex::encode(&name);
        let owner = owner.to_owned();
        self.0.lock().push_back(Entry { owner, name: name.clone(), kept });
        self.evict();
        name
    }

    /// Drops the oldest results above the limits, such as after a call has ended. A running call
    /// that is dropped is cancelled.
    pub(crate) fn evict(&self) {
        let mut entries = self.0.lock();
        let mut total: usize = entries.iter().map(|entry| entry.kept.bytes()).sum();
        while entries.len() > MAX_RESULTS || total > MAX_BYTES {
            let Some(oldest) = entries.pop_front() else { break };
            total = total.saturating_sub(oldest.kept.bytes());
        }
    }

    /// Returns the number of running calls of a visitor.
    pub(crate) fn count_running(&self, owner: &str) -> usize {
        let entries = self.0.lock();
        let own = entries.iter().filter(|entry| entry.owner == owner);
        let running =
            own.filter(|entry| matches!(&entry.kept, Kept::Call(call) if call.outcome().is_none()));
        running.count()
    }

    /// Returns a result by name, if this visitor owns it.
    pub(crate) fn find(&self, owner: &str, name: &str) -> Option<Kept> {
        if name.is_empty() {
            return None;
        }
        let entries = self.0.lock();
        let mut own = entries.iter().filter(|entry| entry.owner == owner);
        own.find(|entry| entry.name == name).map(|entry| entry.kept.clone())
    }
}

/// Time after which the page of a running call is shown.
const QUICK_CALL: Duration = Duration::from_secs(1);
/// Minimum interval of signals that the messages of a call have changed.
const MIN_SIGNAL_INTERVAL: Duration = Duration::from_millis(300);

/// A call with its form.
pub(crate) struct KeptCall {
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: String,
    pub(crate) typed: Fields,
    messages: CallMessages,
    outcome: Arc<OnceLock<CallOutcome>>,
    task: AbortHandle,
}

impl KeptCall {
    /// Starts a call. `at_end` runs once there is an outcome.
    pub(super) fn start<F: Future<Output = CallOutcome> + Send + 'static>(
        (name, typed): (&str, Fields),
        make: impl FnOnce(CallMessages) -> F,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let messages = CallMessages::default();
        let outcome = Arc::new(OnceLock::new());
        let call = make(messages.clone());
        let ending = messages.clone();
        let made = Arc::clone(&outcome);
        let task = spawn(async move {
            let _ = made.set(call.await);
            ending.end();
            at_end();
        });
        Self { name: name.to_owned(), typed, messages, outcome, task: task.abort_handle() }
    }

    /// Returns the outcome; `None` while the call runs.
    pub(crate) fn outcome(&self) -> Option<&CallOutcome> {
        self.outcome.get()
    }

    /// Waits until the call ends, but not longer than a page may take.
    pub(crate) async fn wait_briefly(&self) {
        let mut log = self.messages.subscribe();
        let _ = timeout(QUICK_CALL, log.wait_for(|log| log.has_ended)).await;
    }

    /// Cancels the call if it still runs.
    pub(crate) fn cancel(&self) {
        self.task.abort();
        let _ = self.outcome.set(CallOutcome::cancelled());
        self.messages.end();
    }

    pub(crate) fn log(&self) -> MessageLog {
        let mut log = self.messages.read();
        for line in &mut log.lines {
            line.text = show_text(&line.text);
        }
        log
    }

    /// Signals changes of the messages, the first immediately, until the call has ended.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let mut log = self.messages.subscribe();
        log.mark_changed();
        unfold(Some(log), |log| async move {
            let mut log = log?;
            log.changed().await.ok()?;
            sleep(MIN_SIGNAL_INTERVAL).await;
            let has_ended = log.borrow_and_update().has_ended;
            Some(((), (!has_ended).then_some(log)))
        })
    }

    /// Returns the memory that the call occupies, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let lines: usize = self.messages.read().lines.iter().map(|line| line.text.len()).sum();
        let outcome = self.outcome.get().map_or(0, CallOutcome::bytes);
        self.typed.bytes() + lines + outcome
    }
}

impl Drop for KeptCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CallProgress {
    /// Returns the position in percent, if the total is known.
    pub(crate) fn percent(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0.0)?;
        Some((self.progress / total * 100.0).clamp(0.0, 100.0).round())
    }

    /// Returns the position in words.
    pub(crate) fn text(&self) -> String {
        let position = match self.total {
            Some(total) => format!("{} of {total}", self.progress),
            None => self.progress.to_string(),
        };
        match show_text(&self.message) {
            message if message.is_empty() => position,
            message => format!("{position}: {message}"),
        }
    }
}

#[cfg(test)]
mod tests;
