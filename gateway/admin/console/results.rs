//! Results of forms, kept for the page that the browser is redirected to, so that going back or
//! reloading submits nothing again. They are held in memory, bounded, and visible only to their
//! visitor.

use std::collections::VecDeque;
use std::sync::Arc;

use lockgate_text::hex;
use parking_lot::Mutex;

use super::call_outcome::CallOutcome;
use super::diagnosis::Severity;
use super::fields::Fields;
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

/// A finished call, with its form.
pub(crate) struct KeptCall {
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: String,
    pub(crate) typed: Fields,
    pub(crate) outcome: CallOutcome,
}

struct Entry {
    /// The unmasked token of the visitor's forms.
    owner: String,
    name: String,
    bytes: usize,
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
                Self::Call(call) => call.outcome.bytes() + call.typed.bytes(),
            }
    }
}

impl Results {
    /// Stores a result and returns its name.
    pub(crate) fn keep(&self, owner: &str, kept: Kept) -> String {
        // Without random bytes the result is lost, and nothing else.
        let Ok(name) = random::<12>() else { return String::new() };
        let name = hex::encode(&name);
        let bytes = kept.bytes();
        let owner = owner.to_owned();
        let mut entries = self.0.lock();
        entries.push_back(Entry { owner, name: name.clone(), bytes, kept });
        let mut total: usize = entries.iter().map(|entry| entry.bytes).sum();
        while entries.len() > MAX_RESULTS || total > MAX_BYTES {
            let Some(oldest) = entries.pop_front() else { break };
            total -= oldest.bytes;
        }
        name
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
