//! Cache of the serialised pages of a view's lists.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lockgate_upstream::ListKind;

/// The pages of a view's lists, serialised on first use.
#[derive(Default)]
pub(crate) struct Rendered(pub(crate) [[[OnceLock<Arc<Pages>>; 5]; ListKind::COUNT]; 2]);

/// A list as clients of one revision see it.
pub(crate) struct Pages {
    /// Identifies the content, also across rebuilds, so that cursors stay valid until the list
    /// changes.
    pub(crate) mark: String,
    /// JSON text of an array each.
    pub(crate) pages: Vec<Bytes>,
}
