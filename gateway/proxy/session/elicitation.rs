//! Elicitations that lead a client elsewhere (`mode: url`): 2025-11-25 gives each an id, by which
//! its server says later that it is complete. The ids that clients see are ours; modern servers
//! have none.

use std::collections::VecDeque;

/// Elicitations of one session that may still be said to be complete; the oldest go.
const MAX_OPEN: usize = 64;

/// Those of one session.
#[derive(Default)]
pub(super) struct Elicitations(VecDeque<Open>);

struct Open {
    /// The id that the client knows.
    shown: String,
    slug: String,
    own: String,
}

impl Elicitations {
    /// Remembers one that its server has an id for.
    pub(super) fn add(&mut self, shown: String, slug: &str, own: String) {
        if self.0.len() >= MAX_OPEN {
            self.0.pop_front();
        }
        self.0.push_back(Open { shown, slug: slug.to_owned(), own });
    }

    /// The id that the client knows of one that is complete; once.
    pub(super) fn complete(&mut self, slug: &str, own: &str) -> Option<String> {
        let at = self.0.iter().position(|open| open.slug == slug && open.own == own)?;
        Some(self.0.remove(at)?.shown)
    }
}

/// An id that nobody can guess.
pub(super) fn new_id() -> Option<String> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).ok()?;
    let mut id = String::with_capacity(32);
    for byte in random {
        id.push_str(&format!("{byte:02x}"));
    }
    Some(id)
}
