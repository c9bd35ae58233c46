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

pub(crate) struct Views {
    kept: RwLock<KeptViews>,
    uses: AtomicU64,
    max_weight: usize,
}

impl Default for Views {
    fn default() -> Self {
        Self { kept: RwLock::default(), uses: AtomicU64::new(0), max_weight: MAX_WEIGHT }
    }
}

/// What a view is built from, beside the operator's catalog.
#[derive(Clone, Copy)]
pub(crate) enum ViewLayer {
    Shared,
    /// An organisation's servers, by the number of the organisation's state.
    Own(u64),
    /// The lists of the caller's own connections, and the servers of its organisation, if any.
    OfClient(Option<u64>),
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
    /// Returns the cached view at an endpoint, by the mark of a class of callers, or of class and
    /// lists.
    pub(crate) fn get(
        &self,
        of: ViewLayer,
        endpoint: &Endpoint,
        mark: [u8; 16],
    ) -> Option<Arc<View>> {
        let kept = self.kept.read();
        let layer = match of {
            ViewLayer::Shared => &kept.shared,
            ViewLayer::Own(own) => kept.own.layers.get(&own)?,
            ViewLayer::OfClient(own) => {
                kept.of_clients.layers.get(&own.unwrap_or(NO_ORGANISATION))?
            }
        };
        let found = layer.by_endpoint.get(endpoint)?.get(&mark)?;
        found.used.store(self.count_use(), Ordering::Relaxed);
        Some(Arc::clone(&found.view))
    }

    /// Keeps a view, if the organisation's state that it includes is still current. Returns the
    /// existing view if another caller of the class has stored one first.
    pub(crate) fn keep(
        &self,
        of: ViewLayer,
        is_current: impl FnOnce() -> bool,
        at: (&Endpoint, [u8; 16]),
        view: View,
    ) -> Arc<View> {
        let mut kept = self.kept.write();
        // Checked under the lock: a change of the organisation drops its views under the same lock.
        if !is_current() {
            return Arc::new(view);
        }
        let used = self.count_use();
        match of {
            ViewLayer::Shared => kept.shared.keep_within(self.max_weight, at, view, used),
            ViewLayer::Own(own) => kept.own.keep_within(self.max_weight, own, at, view, used),
            ViewLayer::OfClient(own) => {
                let owner = own.unwrap_or(NO_ORGANISATION);
                kept.of_clients.keep_within(self.max_weight, owner, at, view, used)
            }
        }
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
        at: (&Endpoint, [u8; 16]),
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
        let kept_view = layer.insert(at, view, weight, used);
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
    /// Keeps a view, whatever it takes; evicts others to make room.
    fn keep_within(
        &mut self,
        max: usize,
        at: (&Endpoint, [u8; 16]),
        view: View,
        used: u64,
    ) -> Arc<View> {
        let weight = view.weight();
        while self.weight + weight > max && self.drop_least_used() > 0 {}
        self.insert(at, view, weight, used)
    }

    fn insert(
        &mut self,
        (endpoint, class): (&Endpoint, [u8; 16]),
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
