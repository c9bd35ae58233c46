//! A concurrency limit per organisation and in total, for long operations. Never queues.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) struct Places {
    taken: Mutex<HashMap<Arc<str>, usize>>,
    of_each: usize,
    of_all: usize,
}

/// A permit of an organisation, released when dropped.
pub(crate) struct OrganisationPermit {
    places: Arc<Places>,
    organisation: Arc<str>,
}

impl Places {
    pub(crate) fn new(of_each: usize, of_all: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), of_each, of_all })
    }

    pub(crate) fn enter(self: &Arc<Self>, organisation: &Arc<str>) -> Option<OrganisationPermit> {
        let mut taken = self.taken.lock();
        let own = taken.get(organisation).copied().unwrap_or(0);
        if own >= self.of_each || taken.values().sum::<usize>() >= self.of_all {
            return None;
        }
        taken.insert(Arc::clone(organisation), own + 1);
        Some(OrganisationPermit {
            places: Arc::clone(self),
            organisation: Arc::clone(organisation),
        })
    }
}

impl Drop for OrganisationPermit {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(own) = taken.get_mut(&self.organisation) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.organisation);
            }
        }
    }
}

#[cfg(test)]
mod tests;
