//! Notifications of list changes for a session's client: sent at once on its stream outside of
//! calls, or when the client opens the next stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockgate_protocol::method::Method;
use lockgate_protocol::write;
use lockgate_upstream::ListKind;

use super::{Log, Session};
use crate::catalog::View;
use crate::catalog::entry::ListMarks;

const CHANGES: [(u8, Method); 3] =
    [(1, Method::ToolsChanged), (2, Method::PromptsChanged), (4, Method::ResourcesChanged)];

impl Session {
    /// Returns the stream outside of calls, with pending notifications added.
    pub(crate) fn listen(&self) -> Arc<Log> {
        let log = self.outside();
        let dirty = self.dirty.swap(0, Ordering::AcqRel);
        for (bit, method) in CHANGES {
            if dirty & bit != 0 {
                // Small, and therefore always accepted.
                let _ = log.push_once(write::notification(method.as_str(), b"{}").into());
            }
        }
        log
    }

    /// Notifies the client of lists that differ from the last announced state, and of lists that a
    /// server announced.
    pub(crate) fn notify_changes(&self, view: Option<&View>, announced: &[ListKind]) {
        let marks = view.map_or_else(ListMarks::none, |view| view.marks(self.interactive));
        let before = std::mem::replace(&mut *self.lists.lock(), marks);
        for kind in before.changes(marks, announced) {
            self.list_changed(kind);
        }
    }

    /// Notifies the client that every list changed.
    pub(crate) fn distrust_lists(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.list_changed(kind);
        }
    }

    /// Sends or queues the notification that a list changed.
    fn list_changed(&self, kind: ListKind) {
        let (bit, method) = match kind {
            ListKind::Tools => CHANGES[0],
            ListKind::Prompts => CHANGES[1],
            _ => CHANGES[2],
        };
        if self.is_listening() {
            if let Some(log) = self.log(0) {
                let _ = log.push_once(write::notification(method.as_str(), b"{}").into());
            }
        } else {
            self.dirty.fetch_or(bit, Ordering::AcqRel);
        }
    }
}
