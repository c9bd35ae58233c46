//! Keys of submitted forms, so that a second click, a reload or a replay changes nothing again.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of keys; the oldest are dropped.
const MAX_FORMS: usize = 4096;
/// Time after a client left without an answer in which its form counts as a second click.
const SECOND_CLICK: Duration = Duration::from_secs(2);

/// The keys of the latest submitted forms.
#[derive(Default)]
pub(crate) struct SentForms(Mutex<Remembered>);

/// A hash of the address and the body of a form. Each page puts a unique number into its forms, so
/// forms of different pages have different keys.
pub(crate) type FormKey = [u8; 32];

#[derive(Default)]
struct Remembered {
    /// Each with the time at which its client left without an answer.
    keys: HashMap<FormKey, Option<Instant>>,
    order: VecDeque<FormKey>,
}

impl SentForms {
    pub(crate) fn key_of(address: &str, body: &[u8]) -> FormKey {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(address.len() as u64).to_le_bytes());
        hasher.update(address.as_bytes());
        hasher.update(body);
        *hasher.finalize().as_bytes()
    }

    /// Stores the key of a form. Returns `false` if the form was sent before.
    pub(crate) fn remember(&self, key: FormKey) -> bool {
        let mut remembered = self.0.lock();
        match remembered.keys.insert(key, None) {
            Some(Some(left)) if left.elapsed() >= SECOND_CLICK => return true,
            Some(earlier) => {
                remembered.keys.insert(key, earlier);
                return false;
            }
            None => {}
        }
        remembered.order.push_back(key);
        if remembered.order.len() > MAX_FORMS
            && let Some(oldest) = remembered.order.pop_front()
        {
            remembered.keys.remove(&oldest);
        }
        true
    }

    /// Removes the key of a form that changed nothing, so that it can be sent again.
    pub(crate) fn forget(&self, key: &FormKey) {
        let mut remembered = self.0.lock();
        if remembered.keys.remove(key).is_some() {
            remembered.order.retain(|other| other != key);
        }
    }

    /// Returns the guard of a form that its handler has not answered yet.
    pub(crate) fn watch(&self, key: FormKey) -> UnansweredForm<'_> {
        UnansweredForm { forms: self, key, is_answered: false }
    }
}

/// Guard of a form in progress. If it is dropped before the answer, because the client left, the
/// form can be sent again, but not by the second click that made the client leave.
pub(crate) struct UnansweredForm<'a> {
    forms: &'a SentForms,
    key: FormKey,
    is_answered: bool,
}

impl UnansweredForm<'_> {
    pub(crate) fn disarm(mut self) {
        self.is_answered = true;
    }
}

impl Drop for UnansweredForm<'_> {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(left) = self.forms.0.lock().keys.get_mut(&self.key)
        {
            *left = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
