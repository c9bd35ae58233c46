//! Views for callers with connections that list other items.

use std::sync::Arc;

use lockgate_telemetry::Metrics;
use lockgate_upstream::{ServerId, Upstream};

use super::{Directory, Source, make_viewing, select};
use crate::catalog::{Layers, OwnRules, View};
use crate::flagged_tools::log_new_flagged_tools;
use crate::own_lists::OwnDelta;
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;
use crate::transport::Endpoint;

#[derive(Clone, Copy)]
pub(crate) struct Seeing<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) rights: &'a CallerRights,
}

impl Directory {
    /// Returns a server from the catalog that includes it.
    pub(crate) fn find_merged(&self, id: &ServerId) -> Option<Arc<dyn Upstream>> {
        let source: Source = id.organisation.clone();
        self.catalog_of(&source)?.servers.get(&*id.slug).cloned()
    }

    /// Returns the view of a caller with its own lists. Callers of a class with the same
    /// differences share it.
    pub(crate) fn view_with(
        &self,
        deltas: &[OwnDelta],
        seeing: Seeing<'_>,
        metrics: &Metrics,
    ) -> Option<Arc<View>> {
        let Seeing { endpoint, snapshot, rights } = seeing;
        if deltas.is_empty() {
            return self.view(endpoint, snapshot, rights);
        }
        let shared = self.catalog.load();
        let organisation = self.organisation(rights.principal.organisation());
        let state = organisation.map(|organisation| organisation.state());
        let selection = select(endpoint, state.as_deref(), snapshot, &rights.principal)?;
        let number = state.as_ref().map(|state| state.number);
        let mark = compute_mark(rights.class.mark(), number, deltas);
        if let Some(known) = shared.views.get_of_client(number, endpoint, mark) {
            return Some(known);
        }
        let pins = &snapshot.config.pins;
        let rules = OwnRules { naming: snapshot.naming, pins, metrics };
        let changed = shared.with_own(deltas, rules);
        log_new_flagged_tools(&shared, &changed, pins);
        let own = state.as_ref().map(|state| {
            let changed = state.catalog.with_own(deltas, rules);
            log_new_flagged_tools(&state.catalog, &changed, pins);
            changed
        });
        let viewing = make_viewing(endpoint, selection, snapshot, rights);
        let view = Layers { shared: &changed, own: own.as_ref() }.view(selection, viewing)?;
        Some(shared.views.keep_of_client(number, endpoint, mark, view))
    }
}

/// Computes the cache key of a class of callers with these lists.
fn compute_mark(class: [u8; 16], organisation: Option<u64>, deltas: &[OwnDelta]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&class).update(&organisation.map_or(u64::MAX, |own| own).to_le_bytes());
    for delta in deltas {
        let server = delta.server.to_string();
        hasher.update(&(server.len() as u64).to_le_bytes()).update(server.as_bytes());
        hasher.update(&delta.lists.mark).update(&[u8::from(delta.is_first)]);
    }
    let mut mark = [0; 16];
    hasher.finalize_xof().fill(&mut mark);
    mark
}
