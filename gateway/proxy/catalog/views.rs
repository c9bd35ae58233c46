//! The views of one catalog, made when somebody first asks for them. They belong to the catalog and
//! go with it; what all of them may take is bounded, and the view that was used longest ago goes
//! first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::view::View;
use crate::transport::Endpoint;

/// What the views of a catalog may take together, in bytes as [`View::weight`] estimates them.
const MAX_WEIGHT: usize = 64 * 1024 * 1024;
/// See the module.
#[derive(Default)]
pub(crate) struct Views {
    kept: RwLock<KeptViews>,
    /// Counts uses, so that it is known which view was used last.
    uses: AtomicU64,
}

#[derive(Default)]
struct KeptViews {
    by_endpoint: HashMap<Endpoint, HashMap<[u8; 16], KeptView>>,
    weight: usize,
}

struct KeptView {
    view: Arc<View>,
    weight: usize,
    used: AtomicU64,
}

impl Views {
    /// The view of a class of callers at an endpoint, if it has been made.
    pub(crate) fn get(&self, endpoint: &Endpoint, class: [u8; 16]) -> Option<Arc<View>> {
        let kept = self.kept.read();
        let found = kept.by_endpoint.get(endpoint)?.get(&class)?;
        found.used.store(self.count_use(), Ordering::Relaxed);
        Some(Arc::clone(&found.view))
    }

    /// Keeps a view. Where another caller of the class was faster, gives that one's.
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
        let weight = view.weight();
        let mut kept = self.kept.write();
        if let Some(known) = kept.by_endpoint.get(endpoint).and_then(|classes| classes.get(&class))
        {
            return Arc::clone(&known.view);
        }
        while kept.weight + weight > max && kept.drop_least_used() {}
        let view = Arc::new(view);
        let entry =
            KeptView { view: Arc::clone(&view), weight, used: AtomicU64::new(self.count_use()) };
        kept.weight += weight;
        kept.by_endpoint.entry(endpoint.clone()).or_default().insert(class, entry);
        view
    }

    /// Forgets all of them: other rules apply now.
    pub(crate) fn clear(&self) {
        *self.kept.write() = KeptViews::default();
    }

    fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }
}

impl KeptViews {
    /// `false` when there is none.
    fn drop_least_used(&mut self) -> bool {
        let all = self.by_endpoint.iter().flat_map(|(endpoint, classes)| {
            classes
                .iter()
                .map(move |(class, kept)| (kept.used.load(Ordering::Relaxed), endpoint, *class))
        });
        let Some((_, endpoint, class)) = all.min_by_key(|(used, ..)| *used) else { return false };
        let endpoint = endpoint.clone();
        let Some(classes) = self.by_endpoint.get_mut(&endpoint) else { return false };
        if let Some(gone) = classes.remove(&class) {
            self.weight -= gone.weight;
        }
        if classes.is_empty() {
            self.by_endpoint.remove(&endpoint);
        }
        true
    }
}

#[cfg(test)]
mod tests;
