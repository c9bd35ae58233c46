//! Counts of policy denials by rule, and of requests for unknown names. Rule names come from the
//! operator; names from callers are never stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::labels::{Denial, OTHER, Unknown};

/// Rules counted individually, because reloads may add any number of them.
const MAX_RULES: usize = 1024;

type Counts = [AtomicU64; Denial::ALL.len()];

#[derive(Default)]
pub(crate) struct Denials {
    by_rule: RwLock<BTreeMap<Arc<str>, Counts>>,
    unknown: [AtomicU64; Unknown::ALL.len()],
}

impl Denials {
    pub(crate) fn count(&self, rule: &str, why: Denial) {
        if let Some(counts) = self.by_rule.read().get(rule) {
            counts[why as usize].fetch_add(1, Relaxed);
            return;
        }
        let mut by_rule = self.by_rule.write();
        let is_full = by_rule.len() >= MAX_RULES && !by_rule.contains_key(rule);
        let rule = if is_full { OTHER } else { rule };
        let counts = by_rule.entry(rule.into()).or_default();
        counts[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_unknown(&self, what: Unknown) {
        self.unknown[what as usize].fetch_add(1, Relaxed);
    }

    /// Passes all counts above zero to `see`.
    pub(crate) fn each(&self, mut see: impl FnMut(&str, Denial, u64)) {
        for (rule, counts) in &*self.by_rule.read() {
            for &why in Denial::ALL {
                let count = counts[why as usize].load(Relaxed);
                if count > 0 {
                    see(rule, why, count);
                }
            }
        }
    }

    pub(crate) fn unknown(&self, what: Unknown) -> u64 {
        self.unknown[what as usize].load(Relaxed)
    }
}
