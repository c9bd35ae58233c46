//! Results of forms, kept for the page that the browser is sent to afterwards, so that going back
//! and reloading send nothing twice. They are in memory, bounded, and for their visitor alone.

use std::collections::VecDeque;
use std::sync::Arc;

use lockgate_text::hex;
use parking_lot::Mutex;

use super::call_outcome::CallOutcome;
use super::diagnosis::Severity;
use super::fields::Fields;
use super::sessions::random;

/// Results of all visitors; the oldest are dropped.
const MAX_RESULTS: usize = 256;
/// Their bytes together; the oldest are dropped.
const MAX_BYTES: usize = 32 << 20;
/// Bytes that a result takes besides its texts.
const BASE_BYTES: usize = 1 << 10;

/// One result.
#[derive(Clone)]
pub(crate) enum Kept {
    Notice(Notice),
    Call(Arc<KeptCall>),
}

/// What a form did, in a sentence.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

/// A call that was made, with the form it came from.
pub(crate) struct KeptCall {
    /// What was called.
    pub(crate) name: String,
    pub(crate) typed: Fields,
    pub(crate) outcome: CallOutcome,
}

struct Entry {
    /// The token of the visitor's forms.
    owner: String,
    name: String,
    bytes: usize,
    kept: Kept,
}

/// See the module.
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
    /// Keeps a result; returns the name it is found by.
    pub(crate) fn keep(&self, owner: &str, kept: Kept) -> String {
        // Without random bytes the result is not found again, and nothing else is lost.
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

    /// Returns the result of a name, to the visitor that it belongs to.
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
