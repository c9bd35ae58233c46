//! Elicitations that send a client to a URL (`mode: url`). In 2025-11-25 each has an id, with which
//! its server later announces its completion. Clients see ids of ours; modern servers send none.

use std::collections::VecDeque;

/// Elicitations of a session that await completion; the oldest are dropped.
const MAX_OPEN: usize = 64;

#[derive(Default)]
pub(super) struct Elicitations(VecDeque<Open>);

struct Open {
    /// The id that the client received.
    shown: String,
    slug: String,
    own: String,
}

impl Elicitations {
    pub(super) fn add(&mut self, shown: String, slug: &str, own: String) {
        if self.0.len() >= MAX_OPEN {
            self.0.pop_front();
        }
        self.0.push_back(Open { shown, slug: slug.to_owned(), own });
    }

    /// Removes a completed elicitation and returns the client's id for it.
    pub(super) fn complete(&mut self, slug: &str, own: &str) -> Option<String> {
        let at = self.0.iter().position(|open| open.slug == slug && open.own == own)?;
        Some(self.0.remove(at)?.shown)
    }
}

/// Returns an unguessable id.
pub(super) fn new_id() -> Option<String> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).ok()?;
    let mut id = String::with_capacity(32);
    for byte in random {
        id.push_str(&format!("{byte:02x}"));
    }
    Some(id)
}
