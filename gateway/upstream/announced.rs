//! Lists that a server said have changed, until they have been read again. Clients are told of it
//! then, also when a list reads as before: a list may be another one to a single session.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_protocol::method::Method;
use parking_lot::Mutex;

use crate::catalog::{Catalog, Kind};
use crate::shared::Shared;
use crate::{Announcement, Event};

/// The lists that servers announce changes of; templates with resources.
const TOLD: [Kind; 3] = [Kind::Tools, Kind::Prompts, Kind::Resources];

/// What was said since the lists were last read: on the connection that all clients share, or on
/// those of single sessions.
#[derive(Default)]
pub(crate) struct Announced(Mutex<BTreeMap<Option<u64>, [bool; 3]>>);

impl Announced {
    pub(crate) fn add(&self, session: Option<u64>, method: Method) {
        let mut all = self.0.lock();
        let lists = all.entry(session).or_default();
        let at = match method {
            Method::ToolsChanged => 0,
            Method::PromptsChanged => 1,
            _ => 2,
        };
        lists[at] = true;
    }

    pub(crate) fn take(&self) -> BTreeMap<Option<u64>, [bool; 3]> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Shared {
    /// Tells of lists that were announced and that read as they did before: those that read
    /// otherwise are seen by everybody who can see what is new.
    pub(crate) fn tell_announced(
        &self,
        announced: BTreeMap<Option<u64>, [bool; 3]>,
        before: &Catalog,
    ) {
        let after = self.catalog.load();
        for (session, lists) in announced {
            let mut kinds = Vec::new();
            for (said, kind) in lists.into_iter().zip(TOLD) {
                if said && (session.is_some() || reads_alike(before, &after, kind)) {
                    kinds.push(kind);
                }
            }
            if !kinds.is_empty() {
                let slug = Arc::clone(&self.slug);
                let announcement = Announcement { slug, session, lists: kinds };
                let _ = self.events().send(Event::Announced(announcement));
            }
        }
    }
}

fn reads_alike(before: &Catalog, after: &Catalog, kind: Kind) -> bool {
    before.lists_alike(after, kind)
        && (kind != Kind::Resources || before.lists_alike(after, Kind::Templates))
}
