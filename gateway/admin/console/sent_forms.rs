//! Forms that were sent, so that the same form sent again (a second click, a reload, a replay)
//! changes nothing a second time.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

/// Forms that are remembered: beyond, the oldest is forgotten.
const MAX_FORMS: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct SentForms(Mutex<Remembered>);

/// What a form is known by: where it was sent to, and all that it says. Each page has a number of
/// its own, which its forms carry, so that no two pages send the same.
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

    /// Remembers a form. `false` where it was sent before.
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

    /// Forgets a form that has changed nothing, so that it can be sent again.
    pub(crate) fn forget(&self, key: &FormKey) {
        let mut remembered = self.0.lock();
        if remembered.keys.remove(key) {
            remembered.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests;
