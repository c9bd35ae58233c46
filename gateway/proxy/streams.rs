//! Counts of open event streams: in total for the metrics, and per principal and organisation with
//! limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_authn::Principal;

use crate::quota::{Exhausted, QuotaPermit, Quotas};

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

/// The limit that an additional stream would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyStreams {
    #[error(
        "too many open streams of this caller (limits.streams_per_principal): close one, or \
            retry later"
    )]
    OfPrincipal,
    #[error(
        "too many open streams of this organisation (half of http.connections_per_address): \
            close one, or retry later"
    )]
    OfOrganisation,
}

impl From<Exhausted> for TooManyStreams {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Principal => Self::OfPrincipal,
            Exhausted::All | Exhausted::Organisation => Self::OfOrganisation,
        }
    }
}

impl TooManyStreams {
    /// Returns the value of `data.reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OfPrincipal => "streams_per_principal",
            Self::OfOrganisation => "streams_of_organisation",
        }
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
    ) -> Result<OpenStream, TooManyStreams> {
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
