//! A number for each server of this process that no other one has or gets: names and addresses in
//! memory come back.

use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of one server, for as long as the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance(u64);

impl Instance {
    /// A number that nothing has had.
    #[must_use]
    pub fn mint() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// As part of a digest.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}
