//! Results of forms, kept for the page that the browser is redirected to, so that going back or
//! reloading submits nothing again. They are held in memory, bounded, and visible only to their
//! visitor.

use std::collections::VecDeque;
use std::sync::Arc;

use lockgate_text::hex;
use parking_lot::Mutex;

use super::diagnosis::Severity;
use super::kept_call::KeptCall;
use super::sessions::random;

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

#[cfg(test)]
mod tests;
