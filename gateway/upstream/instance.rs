//! A process-wide unique number for each server. Names and memory addresses may be reused.

use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of a server, for the lifetime of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance(u64);

impl Instance {
    /// Returns a number never used before.
    pub fn mint() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number as bytes for a digest.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}
