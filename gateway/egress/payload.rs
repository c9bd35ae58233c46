//! A request body in at most three pieces, so that a large text need not be copied.

use bytes::Bytes;

/// The body of a request; some pieces may be empty.
#[derive(Clone, Debug, Default)]
pub struct Payload(pub(crate) [Bytes; 3]);

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<[Bytes; 3]> for Payload {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(pieces)
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self([text, Bytes::new(), Bytes::new()])
    }
}
