//! Usage of a shared resource per principal and per organisation, each with a limit; and counts of
//! open event streams, which have such limits, and in total for the metrics. Only holders with
//! usage take up memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// Takes a unit for an organisation. Returns `None` at `limit`.
    pub fn take_for_organisation(
        self: &Arc<Self>,
        organisation: &str,
        limit: usize,
    ) -> Option<QuotaPermit> {
        self.take_as(Holder::Organisation(organisation.into()), limit, None)
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
            let taken = self.take_for_organisation(organisation, most);
            of_organisation = Some(Box::new(taken.ok_or(Exhausted::Organisation)?));
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
        if limit == 0 {
            // Without an entry, which only a permit would remove.
            return None;
        }
        let mut count = self.0.entry(holder.clone()).or_insert(0);
        if *count >= limit {
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

/// The open event streams.
#[derive(Default)]
pub struct Streams {
    all: AtomicUsize,
    waiting: Arc<Quotas>,
}

/// An open stream, counted until it is dropped.
pub struct OpenStream {
    streams: Arc<Streams>,
    /// The quota of streams that wait for notifications.
    _share: Option<QuotaPermit>,
}

/// Returns a limit on streams in words, and its name in an error's data.
pub fn name_stream_limit(limit: Exhausted) -> (&'static str, &'static str) {
    match limit {
        Exhausted::Principal => (
            "too many open streams of this caller (limits.streams_per_principal): close one, or \
                retry later",
            "streams_per_principal",
        ),
        Exhausted::All | Exhausted::Organisation => (
            "too many open streams of this organisation (half of http.connections_per_address): \
                close one, or retry later",
            "streams_of_organisation",
        ),
    }
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Counts a stream of a call, which ends with the call and is bounded by the limits of calls.
    pub fn of_call(self: &Arc<Self>) -> OpenStream {
        self.counted(None)
    }

    /// Counts a stream that waits for notifications: at most `limit` per principal, and half of
    /// `all` per organisation. `all` is the limit of connections per address, because each stream
    /// may be a connection, and behind a proxy all clients share an address.
    ///
    /// # Errors
    /// The limit of the principal or organisation is reached.
    pub(crate) fn open(
        self: &Arc<Self>,
        principal: &Principal,
        limit: usize,
        all: usize,
    ) -> Result<OpenStream, Exhausted> {
        let share = self.waiting.take_of_all(principal, limit, all)?;
        Ok(self.counted(Some(share)))
    }

    fn counted(self: &Arc<Self>, share: Option<QuotaPermit>) -> OpenStream {
        self.all.fetch_add(1, Ordering::Relaxed);
        OpenStream { streams: Arc::clone(self), _share: share }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
