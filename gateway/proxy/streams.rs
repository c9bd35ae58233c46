//! The event streams that are open now: of everybody, for the metrics, and of each principal and
//! each organisation, up to a limit. A stream that ends gives its place back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_authn::Principal;

use crate::quota::{Exhausted, QuotaPermit, Quotas};

/// See the module.
#[derive(Default)]
pub(crate) struct Streams {
    all: AtomicUsize,
    waiting: Arc<Quotas>,
}

/// One open stream. Counted until it is dropped.
pub struct OpenStream {
    streams: Arc<Streams>,
    /// Of those that wait for news.
    _share: Option<QuotaPermit>,
}

/// Who has as many streams as they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyStreams {
    #[error(
        "too many open streams of this caller (limits.streams_per_principal): close one, or try \
         again later"
    )]
    OfPrincipal,
    #[error(
        "too many open streams of this organisation (half of http.connections_per_address): close \
         one, or try again later"
    )]
    OfOrganisation,
}

impl From<Exhausted> for TooManyStreams {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Principal => Self::OfPrincipal,
            Exhausted::Organisation => Self::OfOrganisation,
        }
    }
}

impl TooManyStreams {
    /// What stands in `data.reason`.
    #[must_use]
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

    /// A stream of a call: it ends with the call, and is bounded like calls are.
    pub(crate) fn of_call(self: &Arc<Self>) -> OpenStream {
        self.counted(None)
    }

    /// A stream that waits for news, where there may be `limit` of its principal, and about `all`
    /// of everybody: each may be a connection, and behind a proxy all clients have one address.
    ///
    /// # Errors
    /// Its principal has as many of them as one may have, or its organisation.
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
