//! Keys of submitted forms, so that a second click, a reload or a replay changes nothing again.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

/// Maximum number of keys; the oldest are dropped.
const MAX_FORMS: usize = 4096;

/// The keys of the latest submitted forms.
#[derive(Default)]
pub(crate) struct SentForms(Mutex<Remembered>);

/// A hash of the address and the body of a form. Each page puts a unique number into its forms, so
/// forms of different pages have different keys.
pub(crate) type FormKey = [u8; 32];

#[derive(Default)]
struct Remembered {
    keys: HashSet<FormKey>,
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
        if !remembered.keys.insert(key) {
            return false;
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
        if remembered.keys.remove(key) {
            remembered.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests;
