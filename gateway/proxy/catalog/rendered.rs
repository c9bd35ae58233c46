//! Where the pages of a view's lists are kept once they have been written.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// The pages of a view's lists, written when they are first asked for.
#[derive(Default)]
pub(crate) struct Rendered(pub(crate) [[[OnceLock<Arc<Pages>>; 5]; 4]; 2]);

/// One list as clients of one revision see it.
pub(crate) struct Pages {
    /// The same for the same list, also after a rebuild: cursors stay good as long as nothing has
    /// changed.
    pub(crate) mark: String,
    /// JSON text of an array each.
    pub(crate) pages: Vec<Bytes>,
}
