//! Buffers for messages that arrive in pieces. A large message has its own memory mapping: it grows
//! without copying, only written pages are resident, and all are returned to the system when the
//! message is dropped.

use bytes::{Bytes, BytesMut};
use memmap2::{MmapMut, MmapOptions};

use crate::budget::Hold;

/// Size above which a message gets its own mapping.
const MAX_HEAP_MESSAGE: usize = 256 << 10;

/// A message that is arriving. Not counted in the budget: see [`crate::reader`].
#[derive(Default)]
pub struct Buffer {
    heap: BytesMut,
    pages: Option<Pages>,
    /// Maximum size of the message in bytes.
    max: usize,
}

struct Pages {
    memory: MmapMut,
    len: usize,
}

/// Bytes with a hold on the budget for as long as they exist.
struct Counted {
    bytes: Bytes,
    _hold: Hold,
}

impl Buffer {
    /// Creates a buffer for a message of at most `max` bytes, the size of its mapping.
    pub fn new(max: usize) -> Self {
        Self { heap: BytesMut::new(), pages: None, max }
    }

    pub fn len(&self) -> usize {
        match &self.pages {
            Some(pages) => pages.len,
            None => self.heap.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len().saturating_add(bytes.len());
        if end > MAX_HEAP_MESSAGE && self.pages.is_none() && self.heap.capacity() < end {
            self.pages = Pages::with(&self.heap, self.max.max(end));
            if self.pages.is_some() {
                self.heap = BytesMut::new();
            }
        }
        match &mut self.pages {
            Some(pages) => pages.extend(bytes),
            None => self.heap.extend_from_slice(bytes),
        }
    }

    /// Removes and returns the message. The buffer is empty afterwards.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        match self.pages.take() {
            Some(pages) => Bytes::from_owner(pages),
            None => self.heap.split().freeze(),
        }
    }

    /// Returns the bytes received so far.
    pub fn as_slice(&self) -> &[u8] {
        self.pages.as_ref().map_or(&self.heap, |pages| pages.as_ref())
    }
}

impl Pages {
    /// Returns `None` if the system cannot map that many addresses.
    fn with(start: &[u8], max: usize) -> Option<Self> {
        let memory = MmapOptions::new().len(max).no_reserve_swap().map_anon().ok()?;
        // With transparent huge pages, a byte in each would make the whole mapping resident.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        let mut pages = Self { memory, len: 0 };
        pages.extend(start);
        Some(pages)
    }

    fn extend(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if self.memory.len() < end
            && let Some(larger) = Self::with(self.as_ref(), end.saturating_mul(2))
        {
            *self = larger;
        }
        if let Some(room) = self.memory.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or(&[])
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Attaches a hold to bytes; it is released with the last reference to them.
#[must_use]
pub fn counted(bytes: Bytes, hold: Hold) -> Bytes {
    if hold.bytes() == 0 { bytes } else { Bytes::from_owner(Counted { bytes, _hold: hold }) }
}

#[cfg(test)]
mod tests;
