//! What each principal holds of something that all share, up to a limit for each, and what all
//! members of one organisation hold. Whoever holds nothing takes no room here.

use std::sync::Arc;

use dashmap::DashMap;
use lockgate_authn::{DEFAULT_ORGANISATION, Principal};

/// An organisation, however many keys it gives out, leaves this part of everything to others; the
/// operator's own alone has none of its own to leave.
const LEFT_TO_OTHERS: usize = 2;

/// See the module.
#[derive(Default)]
pub(crate) struct Quotas(DashMap<Holder, usize>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Principal(Principal),
    Organisation(Box<str>),
}

/// One of a principal's share, given back when dropped.
pub(crate) struct QuotaPermit {
    shares: Arc<Quotas>,
    of: Holder,
    /// The same of its organisation's.
    _of_organisation: Option<Box<QuotaPermit>>,
}

/// Who has as many as they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Principal,
    Organisation,
}

impl Quotas {
    /// One more for this principal; `None` when it has `limit` already.
    pub(crate) fn take(
        self: &Arc<Self>,
        principal: &Principal,
        limit: usize,
    ) -> Option<QuotaPermit> {
        self.take_as(Holder::Principal(principal.clone()), limit, None)
    }

    /// The same where there may be `all` of them; its organisation has one more, too.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub(crate) fn take_of_all(
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
        match self.take_as(holder, limit, of_organisation) {
            Some(taken) => Ok(taken),
            None => Err(Exhausted::Principal),
        }
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
