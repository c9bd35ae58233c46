//! What each principal holds of something that all share, up to a limit for each. Whoever holds
//! nothing takes no room here.

use std::sync::Arc;

use dashmap::DashMap;
use lockgate_authn::Principal;

/// See the module.
#[derive(Default)]
pub(crate) struct Quotas(DashMap<Principal, usize>);

/// One of a principal's share, given back when dropped.
pub(crate) struct QuotaPermit {
    shares: Arc<Quotas>,
    of: Principal,
}

impl Quotas {
    /// One more for this principal; `None` when it has `limit` already.
    pub(crate) fn take(
        self: &Arc<Self>,
        principal: &Principal,
        limit: usize,
    ) -> Option<QuotaPermit> {
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
        Some(QuotaPermit { shares: Arc::clone(self), of: principal.clone() })
    }

    #[cfg(test)]
    pub(crate) fn principals(&self) -> usize {
        self.0.len()
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.shares.0.remove_if_mut(&self.of, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}
