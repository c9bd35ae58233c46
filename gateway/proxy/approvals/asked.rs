//! Open approval questions to modern callers, and approved calls paused by their servers'
//! questions. Each is taken once. At a caller's limit, the question that expires first is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_authn::Principal;
use parking_lot::Mutex;

use crate::config::Limits;
use crate::quota::{Exhausted, QuotaPermit, Quotas};

/// Time for the next round of an approved call: the lifetime of the request state that its client
/// holds.
const ROUND_LIFE: Duration = Duration::from_secs(600);

/// The key of a question.
pub(crate) type Nonce = [u8; 16];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedCall {
    pub(crate) owner: Principal,
    /// Digest of the call that the question is about.
    pub(crate) digest: [u8; 32],
    /// Fingerprint of the policies at the time of the question.
    pub(crate) policies: [u8; 32],
    pub(crate) expires: Instant,
}

/// A caller's answer to its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerAnswer {
    pub(crate) nonce: Nonce,
    /// `None` if the request carried no answer.
    pub(crate) approves: Option<bool>,
}

#[derive(Default)]
pub(crate) struct AskedCalls {
    tables: Mutex<Tables>,
    shares: Arc<Quotas>,
}

struct Asked {
    call: AskedCall,
    _share: QuotaPermit,
}

#[derive(Default)]
struct Tables {
    asked: HashMap<Nonce, Asked>,
    rounds: HashMap<[u8; 32], Instant>,
}

impl AskedCalls {
    /// Stores a question until it is answered or expires.
    ///
    /// # Errors
    /// The limit of all callers, or of the organisation, is reached.
    pub(crate) fn ask(
        &self,
        nonce: Nonce,
        call: AskedCall,
        bounds: Bounds,
    ) -> Result<(), Exhausted> {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.asked.retain(|_, asked| asked.call.expires > now);
        tables.make_room(&call.owner, bounds.of_principal);
        if tables.asked.len() >= bounds.all {
            return Err(Exhausted::All);
        }
        let share = self.shares.take_of_all(&call.owner, bounds.of_principal, bounds.all)?;
        tables.asked.insert(nonce, Asked { call, _share: share });
        Ok(())
    }

    /// Removes and returns an answered question, so that it counts only once. It may have expired.
    pub(crate) fn take(&self, nonce: &Nonce) -> Option<AskedCall> {
        Some(self.tables.lock().asked.remove(nonce)?.call)
    }

    /// Allows the paused call's next round without a new approval.
    pub(crate) fn open_round(&self, digest: [u8; 32], bounds: Bounds) {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.rounds.retain(|_, until| *until > now);
        if tables.rounds.len() < bounds.all {
            tables.rounds.insert(digest, now + ROUND_LIFE);
        }
    }

    /// Takes the next round of an approved call; returns `false` if there is none.
    pub(crate) fn take_round(&self, digest: &[u8; 32]) -> bool {
        let until = self.tables.lock().rounds.remove(digest);
        matches!(until, Some(until) if until > Instant::now())
    }

    pub(crate) fn len(&self) -> usize {
        let now = Instant::now();
        self.tables.lock().asked.values().filter(|asked| asked.call.expires > now).count()
    }
}

impl Tables {
    /// Drops the owner's question that expires first if the owner has reached its limit.
    fn make_room(&mut self, owner: &Principal, most: usize) {
        let mut of_owner = 0;
        let mut oldest: Option<(Instant, Nonce)> = None;
        for (nonce, Asked { call, .. }) in &self.asked {
            if call.owner != *owner {
                continue;
            }
            of_owner += 1;
            match oldest {
                Some((expires, _)) if expires <= call.expires => {}
                _ => oldest = Some((call.expires, *nonce)),
            }
        }
        if of_owner >= most
            && let Some((_, nonce)) = oldest
        {
            self.asked.remove(&nonce);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) of_principal: usize,
}

impl Bounds {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { all: limits.approvals, of_principal: limits.approvals_per_principal }
    }
}

#[cfg(test)]
mod tests;
