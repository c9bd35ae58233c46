//! Tracks whether a single principal has used the servers so far. A notification without a request
//! id may concern another caller's call, so it is forwarded only while there is no other caller.

use std::sync::atomic::{AtomicU64, Ordering};

const NO_PRINCIPAL: u64 = 0;
const SEVERAL_PRINCIPALS: u64 = u64::MAX;

/// The only principal so far. Once there were several, that state is permanent: a server may report
/// on a call long after the call ended (a background job, for example), so there is no moment after
/// which its notifications can only concern current callers. The loss is small: log messages
/// outside of calls. Log messages of a call reach its caller in any case.
#[derive(Default)]
pub(crate) struct SinglePrincipal(AtomicU64);

impl SinglePrincipal {
    /// Records that a principal, identified by its key, uses a server.
    pub(crate) fn record(&self, caller: u64) {
        // The value 0 is reserved and cannot identify a principal.
        let caller = if caller == NO_PRINCIPAL { SEVERAL_PRINCIPALS } else { caller };
        let known = self.0.load(Ordering::Relaxed);
        if known == caller || known == SEVERAL_PRINCIPALS {
            return;
        }
        let first =
            self.0.compare_exchange(NO_PRINCIPAL, caller, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|other| other != caller) {
            self.0.store(SEVERAL_PRINCIPALS, Ordering::Relaxed);
        }
    }

    /// Returns whether this principal is the only one so far.
    pub(crate) fn is(&self, caller: u64) -> bool {
        caller != SEVERAL_PRINCIPALS && self.0.load(Ordering::Relaxed) == caller
    }
}

#[cfg(test)]
mod tests;
