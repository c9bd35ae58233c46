//! What each principal holds of something that all share, up to a limit for each. Whoever holds nothing takes no room here.

use std::sync::Arc;

use dashmap::DashMap;
use lockgate_authn::Principal;

/// See the module.
#[derive(Default)]
pub(crate) struct Shares(DashMap<Principal, usize>);

/// One of a principal's share, given back when dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    of: Principal,
}

impl Shares {
    /// One more for this principal; `None` when it has `limit` already.
    pub(crate) fn take(self: &Arc<Self>, principal: &Principal, limit: usize) -> Option<Share> {
        let mut count = self.0.entry(principal.clone()).or_insert(0);
        if *count >= limit {
            let none = *count == 0;
            drop(count);
            if none {
                self.0.remove_if(principal, |_, count| *count == 0);
            }
            return None;
        }
        *count += 1;
        drop(count);
        Some(Share { shares: Arc::clone(self), of: principal.clone() })
    }

    #[cfg(test)]
    pub(crate) fn principals(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.0.remove_if_mut(&self.of, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}
