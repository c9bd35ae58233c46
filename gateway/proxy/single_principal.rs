//! Whether one principal alone has used the servers so far. What a server says to nobody in
//! particular may be about anybody's call, so it is told to clients only while there is nobody else
//! whom it could be about.

use std::sync::atomic::{AtomicU64, Ordering};

const NOBODY: u64 = 0;
const SEVERAL: u64 = u64::MAX;

/// See the module. Once there were several, it stays so for as long as the process runs. That is
/// meant: nothing tells when a server has said its last word about somebody's call (it may have
/// begun a job, or report what it did an hour ago), so there is no moment at which its words can
/// only be about those who are still there. What is lost is little: log messages outside of calls;
/// those of a call reach its caller in any case.
#[derive(Default)]
pub(crate) struct SinglePrincipal(AtomicU64);

impl SinglePrincipal {
    /// A principal, by its number, reaches a server.
    pub(crate) fn record(&self, caller: u64) {
        // A number that means nobody tells nobody apart.
        let caller = if caller == NOBODY { SEVERAL } else { caller };
        let known = self.0.load(Ordering::Relaxed);
        if known == caller || known == SEVERAL {
            return;
        }
        let first = self.0.compare_exchange(NOBODY, caller, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|other| other != caller) {
            self.0.store(SEVERAL, Ordering::Relaxed);
        }
    }

    /// Whether nobody but this principal has reached a server.
    pub(crate) fn is(&self, caller: u64) -> bool {
        caller != SEVERAL && self.0.load(Ordering::Relaxed) == caller
    }
}

#[cfg(test)]
mod tests;
