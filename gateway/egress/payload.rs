//! A request body in at most two pieces, so that a large text need not be copied.

use bytes::Bytes;

/// The body of a request; some pieces may be empty.
#[derive(Clone, Debug, Default)]
pub struct Payload(pub(crate) [Bytes; 2]);

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<[Bytes; 2]> for Payload {
    fn from(pieces: [Bytes; 2]) -> Self {
        Self(pieces)
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self([text, Bytes::new()])
    }
}
