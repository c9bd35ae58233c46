//! What modern callers were asked and have not answered, and approved calls that their servers have
//! paused with questions. Each is taken once; of one caller's, the oldest makes room.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_authn::Principal;
use parking_lot::Mutex;

use crate::approvals::bounds::{Bounds, NoRoom};
use crate::quota::{QuotaPermit, Quotas};

/// How long the next round of an approved call may take: as long as the state that its client was
/// given is good.
const ROUND_LIFE: Duration = Duration::from_secs(600);

/// What stands for one question.
pub(crate) type Nonce = [u8; 16];

/// A question to a caller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedCall {
    pub(crate) owner: Principal,
    /// Of the very call that was asked about.
    pub(crate) digest: [u8; 32],
    /// Of the policies that asked.
    pub(crate) policies: [u8; 32],
    pub(crate) expires: Instant,
}

/// Why a question cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    Unknown,
    Expired,
}

/// See the module.
#[derive(Default)]
pub(crate) struct AskedCalls {
    tables: Mutex<Tables>,
    shares: Arc<Quotas>,
}

/// A question, and its place among those of its owner and its organisation.
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
    /// Remembers a question until it is answered or expires.
    ///
    /// # Errors
    /// There are as many of all callers as there may be, or of its organisation.
    pub(crate) fn ask(&self, nonce: Nonce, call: AskedCall, bounds: Bounds) -> Result<(), NoRoom> {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.asked.retain(|_, asked| asked.call.expires > now);
        tables.make_room(&call.owner, bounds.of_principal);
        if tables.asked.len() >= bounds.all {
            return Err(NoRoom::All);
        }
        let share = self.shares.take_of_all(&call.owner, bounds.of_principal, bounds.all)?;
        tables.asked.insert(nonce, Asked { call, _share: share });
        Ok(())
    }

    /// Takes a question that is answered: once.
    ///
    /// # Errors
    /// It is not known, or its time is over.
    pub(crate) fn take(&self, nonce: &Nonce) -> Result<AskedCall, TakeError> {
        let Some(asked) = self.tables.lock().asked.remove(nonce) else {
            return Err(TakeError::Unknown);
        };
        match asked.call.expires > Instant::now() {
            true => Ok(asked.call),
            false => Err(TakeError::Expired),
        }
    }

    /// The server of an approved call has paused it: its next round needs no other approval.
    pub(crate) fn open_round(&self, digest: [u8; 32], bounds: Bounds) {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.rounds.retain(|_, until| *until > now);
        if tables.rounds.len() < bounds.all {
            tables.rounds.insert(digest, now + ROUND_LIFE);
        }
    }

    /// Takes the next round of an approved call: once.
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
    /// Where somebody was asked as much as they may be, the question that expires first goes.
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

#[cfg(test)]
mod tests;
