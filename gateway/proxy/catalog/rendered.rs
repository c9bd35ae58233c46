//! Cache of the serialised pages of a view's lists.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lockgate_upstream::ListKind;

use crate::catalog::entry::Audience;

/// The pages of a list by audience and revision, serialised on first use.
pub(crate) type RenderedList = [[OnceLock<Arc<Pages>>; 5]; Audience::COUNT];

/// The pages of a view's lists.
#[derive(Default)]
pub(crate) struct Rendered(pub(crate) [RenderedList; ListKind::COUNT]);

/// A list as clients of one revision see it.
pub(crate) struct Pages {
    /// Identifies the content, also across rebuilds, so that cursors stay valid until the list
    /// changes.
    pub(crate) mark: String,
    /// JSON text of an array each.
    pub(crate) pages: Vec<Bytes>,
}
