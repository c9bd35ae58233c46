//! Sessions by their owner's organisation, so that notifications of an organisation's servers skip
//! the sessions of others. The organisation of a session never changes.

use std::collections::HashMap;
use std::sync::Arc;

use dashmap::DashMap;

pub(super) struct Members<T>(DashMap<Box<str>, HashMap<u64, Arc<T>>>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(DashMap::new())
    }
}

impl<T> Members<T> {
    pub(super) fn add(&self, organisation: &str, key: u64, session: &Arc<T>) {
        let mut own = self.0.entry(organisation.into()).or_default();
        own.insert(key, Arc::clone(session));
    }

    pub(super) fn remove(&self, organisation: &str, key: u64) {
        self.0.remove_if_mut(organisation, |_, own| {
            own.remove(&key);
            own.is_empty()
        });
    }

    pub(super) fn of(&self, organisation: &str) -> Vec<Arc<T>> {
        match self.0.get(organisation) {
            Some(own) => own.values().cloned().collect(),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_of_one_organisation_and_leave_nothing_behind() {
        let members = Members::default();
        let ann = Arc::new("ann");
        let bob = Arc::new("bob");
        members.add("acme", 1, &ann);
        members.add("other", 2, &bob);
        assert_eq!((members.of("acme"), members.of("other")), (vec![ann], vec![bob]));
        members.remove("acme", 2);
        assert_eq!(members.of("acme").len(), 1);
        members.remove("acme", 1);
        members.remove("other", 2);
        assert!(members.of("acme").is_empty() && members.0.is_empty());
    }
}
