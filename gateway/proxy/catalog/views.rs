//! Cache of the views of the operator's catalog, alone or combined with that of an organisation,
//! built on first use. A view is dropped when either catalog is replaced. The memory is bounded,
//! and the least recently used view is evicted first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::AHashMap;
use parking_lot::RwLock;

use super::view::View;
use crate::transport::Endpoint;

/// Limit on each of: the views of the operator's servers alone, those of all organisations, and
/// those of clients with their own lists. In bytes, as estimated by [`View::weight`].
const MAX_WEIGHT: usize = 64 * 1024 * 1024;
/// Key for callers without an organisation.
const NO_ORGANISATION: u64 = u64::MAX;

#[derive(Default)]
pub(crate) struct Views {
    kept: RwLock<KeptViews>,
    uses: AtomicU64,
}

#[derive(Default)]
struct KeptViews {
    shared: Layer,
    /// Views that include an organisation's servers, by the number of the organisation's state.
    own: Shares,
    /// Views of callers with their own lists, by the same number or [`NO_ORGANISATION`].
    of_clients: Shares,
}

/// The layers of several owners within a shared limit.
#[derive(Default)]
struct Shares {
    layers: HashMap<u64, Layer>,
    weight: usize,
}

/// Views built from the same catalogs.
#[derive(Default)]
struct Layer {
    by_endpoint: AHashMap<Endpoint, AHashMap<[u8; 16], KeptView>>,
    weight: usize,
}

struct KeptView {
    view: Arc<View>,
    weight: usize,
    used: AtomicU64,
}

impl Views {
    /// Returns the cached view of a class of callers at an endpoint; `own` is the number of the
    /// organisation's state if the view includes it.
    pub(crate) fn get(
        &self,
        own: Option<u64>,
        endpoint: &Endpoint,
        class: [u8; 16],
    ) -> Option<Arc<View>> {
        let kept = self.kept.read();
        let layer = match own {
            None => &kept.shared,
            Some(own) => kept.own.layers.get(&own)?,
        };
        self.find_in(layer, endpoint, class)
    }

    fn find_in(&self, layer: &Layer, endpoint: &Endpoint, class: [u8; 16]) -> Option<Arc<View>> {
        let found = layer.by_endpoint.get(endpoint)?.get(&class)?;
        found.used.store(self.count_use(), Ordering::Relaxed);
        Some(Arc::clone(&found.view))
    }

    /// Returns the cached view of callers with their own lists, by the mark of class and lists.
    pub(crate) fn get_of_client(
        &self,
        own: Option<u64>,
        endpoint: &Endpoint,
        mark: [u8; 16],
    ) -> Option<Arc<View>> {
        let kept = self.kept.read();
        let layer = kept.of_clients.layers.get(&own.unwrap_or(NO_ORGANISATION))?;
        self.find_in(layer, endpoint, mark)
    }

    /// Keeps such a view, under a limit separate from that of shared views.
    pub(crate) fn keep_of_client(
        &self,
        own: Option<u64>,
        endpoint: &Endpoint,
        mark: [u8; 16],
        view: View,
    ) -> Arc<View> {
        let owner = own.unwrap_or(NO_ORGANISATION);
        let used = self.count_use();
        self.kept.write().of_clients.keep_within(MAX_WEIGHT, owner, (endpoint, mark), view, used)
    }

    /// Keeps a view of the operator's servers. Returns the existing view if another caller of the
    /// class has stored one first.
    pub(crate) fn keep(&self, endpoint: &Endpoint, class: [u8; 16], view: View) -> Arc<View> {
        self.keep_within(MAX_WEIGHT, endpoint, class, view)
    }

    fn keep_within(
        &self,
        max: usize,
        endpoint: &Endpoint,
        class: [u8; 16],
        view: View,
    ) -> Arc<View> {
        let shared = &mut self.kept.write().shared;
        let weight = view.weight();
        while shared.weight + weight > max && shared.drop_least_used() > 0 {}
        shared.insert(endpoint, class, view, weight, self.count_use())
    }

    /// Keeps a view that includes an organisation's state, if that state is still current.
    pub(crate) fn keep_own(
        &self,
        own: u64,
        is_current: impl FnOnce() -> bool,
        endpoint: &Endpoint,
        class: [u8; 16],
        view: View,
    ) -> Arc<View> {
        self.keep_own_within(MAX_WEIGHT, own, is_current, endpoint, class, view)
    }

    fn keep_own_within(
        &self,
        max: usize,
        own: u64,
        is_current: impl FnOnce() -> bool,
        endpoint: &Endpoint,
        class: [u8; 16],
        view: View,
    ) -> Arc<View> {
        let mut kept = self.kept.write();
        // Checked under the lock: a change of the organisation drops its views under the same lock.
        if !is_current() {
            return Arc::new(view);
        }
        kept.own.keep_within(max, own, (endpoint, class), view, self.count_use())
    }

    /// Drops the views that include an organisation's previous state.
    pub(crate) fn forget(&self, own: u64) {
        let mut kept = self.kept.write();
        kept.own.forget(own);
        kept.of_clients.forget(own);
    }

    /// Drops all views, because policy or naming has changed.
    pub(crate) fn clear(&self) {
        *self.kept.write() = KeptViews::default();
    }

    fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }
}

impl Shares {
    /// Keeps a view; evicts views of the heaviest owner to make room.
    fn keep_within(
        &mut self,
        max: usize,
        owner: u64,
        (endpoint, class): (&Endpoint, [u8; 16]),
        view: View,
        used: u64,
    ) -> Arc<View> {
        let weight = view.weight();
        while self.weight + weight > max {
            if !self.drop_of_heaviest(owner, weight) {
                return Arc::new(view);
            }
        }
        let layer = self.layers.entry(owner).or_default();
        let before = layer.weight;
        let kept_view = layer.insert(endpoint, class, view, weight, used);
        self.weight += layer.weight - before;
        kept_view
    }

    fn forget(&mut self, owner: u64) {
        if let Some(gone) = self.layers.remove(&owner) {
            self.weight -= gone.weight;
        }
    }

    /// Evicts a view of the heaviest owner, so that all owners get a share of the memory. Returns
    /// `false` if the newcomer is the heaviest and has no view to evict.
    fn drop_of_heaviest(&mut self, newcomer: u64, weight: usize) -> bool {
        let mut heaviest: Option<(usize, u64)> = None;
        for (&own, layer) in &self.layers {
            let added = if own == newcomer { weight } else { 0 };
            heaviest = heaviest.max(Some((layer.weight + added, own)));
        }
        let Some((heaviest, own)) = heaviest else { return false };
        if heaviest < weight {
            return false;
        }
        let Some(layer) = self.layers.get_mut(&own) else { return false };
        let gone = layer.drop_least_used();
        if layer.by_endpoint.is_empty() {
            self.layers.remove(&own);
        }
        self.weight -= gone;
        true
    }
}

impl Layer {
    fn insert(
        &mut self,
        endpoint: &Endpoint,
        class: [u8; 16],
        view: View,
        weight: usize,
        used: u64,
    ) -> Arc<View> {
        if let Some(classes) = self.by_endpoint.get(endpoint)
            && let Some(known) = classes.get(&class)
        {
            return Arc::clone(&known.view);
        }
        let view = Arc::new(view);
        let entry = KeptView { view: Arc::clone(&view), weight, used: AtomicU64::new(used) };
        self.weight += weight;
        self.by_endpoint.entry(endpoint.clone()).or_default().insert(class, entry);
        view
    }

    /// Evicts the least recently used view and returns its weight, or 0 if there is none.
    fn drop_least_used(&mut self) -> usize {
        let Some((endpoint, class)) = self.find_least_used() else { return 0 };
        let Some(classes) = self.by_endpoint.get_mut(&endpoint) else { return 0 };
        let Some(gone) = classes.remove(&class) else { return 0 };
        self.weight -= gone.weight;
        if classes.is_empty() {
            self.by_endpoint.remove(&endpoint);
        }
        gone.weight
    }

    fn find_least_used(&self) -> Option<(Endpoint, [u8; 16])> {
        let mut fewest = u64::MAX;
        let mut least_used = None;
        for (endpoint, classes) in &self.by_endpoint {
            for (class, kept) in classes {
                let used = kept.used.load(Ordering::Relaxed);
                if used <= fewest {
                    fewest = used;
                    least_used = Some((endpoint, *class));
                }
            }
        }
        let (endpoint, class) = least_used?;
        Some((endpoint.clone(), class))
    }
}

#[cfg(test)]
mod tests;
