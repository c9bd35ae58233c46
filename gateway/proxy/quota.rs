//! Usage of a shared resource per principal and per organisation, each with a limit. Only holders
//! with usage take up memory.

use std::sync::Arc;

use dashmap::DashMap;
use lockgate_authn::{DEFAULT_ORGANISATION, Principal};

/// Divisor of the total for an organisation's share, which bounds each organisation however many
/// keys it issues. The default organisation has no such share.
const LEFT_TO_OTHERS: usize = 2;

/// The units in use of a resource, by holder.
#[derive(Default)]
pub struct Quotas(DashMap<Holder, usize>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Principal(Principal),
    Organisation(Box<str>),
}

/// A unit of a principal's quota, returned on drop.
pub struct QuotaPermit {
    shares: Arc<Quotas>,
    of: Holder,
    /// The corresponding unit of the organisation's quota.
    _of_organisation: Option<Box<QuotaPermit>>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// That of all principals.
    All,
    /// An organisation may hold half of the limit on all.
    Organisation,
    Principal,
}

impl Quotas {
    /// Takes a unit for this principal. Returns `None` at `limit`.
    pub fn take(self: &Arc<Self>, principal: &Principal, limit: usize) -> Option<QuotaPermit> {
        self.take_as(Holder::Principal(principal.clone()), limit, None)
    }

    /// Takes a unit for this principal and for its organisation, which may hold half of `all`.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn take_of_all(
        self: &Arc<Self>,
        principal: &Principal,
        limit: usize,
        all: usize,
    ) -> Result<QuotaPermit, Exhausted> {
        let mut of_organisation = None;
        let organisation = principal.organisation();
        if organisation != DEFAULT_ORGANISATION {
            let most = (all / LEFT_TO_OTHERS).max(1);
            let holder = Holder::Organisation(organisation.into());
            let Some(taken) = self.take_as(holder, most, None) else {
                return Err(Exhausted::Organisation);
            };
            of_organisation = Some(Box::new(taken));
        }
        let holder = Holder::Principal(principal.clone());
        self.take_as(holder, limit, of_organisation).ok_or(Exhausted::Principal)
    }

    fn take_as(
        self: &Arc<Self>,
        holder: Holder,
        limit: usize,
        of_organisation: Option<Box<QuotaPermit>>,
    ) -> Option<QuotaPermit> {
        let mut count = self.0.entry(holder.clone()).or_insert(0);
        if *count >= limit {
            let none = *count == 0;
            drop(count);
            if none {
                self.0.remove_if(&holder, |_, count| *count == 0);
            }
            return None;
        }
        *count += 1;
        drop(count);
        Some(QuotaPermit {
            shares: Arc::clone(self),
            of: holder,
            _of_organisation: of_organisation,
        })
    }

    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
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

#[cfg(test)]
mod tests;
