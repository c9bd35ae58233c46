//! The latest lines by number, to detect exact repetitions by a sender.

use std::collections::{HashMap, VecDeque};

/// Number of lines kept. A sender repeats at most its unconfirmed records.
const MAX_REMEMBERED_LINES: usize = 16_384;

#[derive(Default)]
pub(super) struct Repeats {
    lines: HashMap<u64, blake3::Hash>,
    order: VecDeque<u64>,
}

impl Repeats {
    /// Returns whether the record with this number had exactly this line.
    pub(super) fn contains(&self, seq: u64, line: &[u8]) -> bool {
        self.lines.get(&seq).is_some_and(|known| *known == blake3::hash(line))
    }

    pub(super) fn add(&mut self, seq: u64, line: &[u8]) {
        if self.lines.insert(seq, blake3::hash(line)).is_none() {
            self.order.push_back(seq);
        }
        if self.order.len() > MAX_REMEMBERED_LINES
            && let Some(oldest) = self.order.pop_front()
        {
            self.lines.remove(&oldest);
        }
    }
}
