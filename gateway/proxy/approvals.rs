//! Calls that await approval by their caller or by approvers. The tables are bounded and kept in
//! memory only, so a restart forgets all approvals. Here: open questions to modern callers, and
//! approved calls paused by their servers' questions. Each is taken once. At a caller's limit, the
//! question that expires first is dropped.

pub(crate) mod waiting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use lockgate_authn::Principal;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use waiting::WaitingCalls;

use crate::config::Limits;
use crate::quota::{Exhausted, QuotaPermit, Quotas};

/// The tables of calls that await approval.
#[derive(Default)]
pub struct Approvals {
    pub(crate) asked: AskedCalls,
    /// The calls that wait for approvers.
    pub waiting: WaitingCalls,
    is_open: AtomicBool,
    announcements: OnceLock<mpsc::Sender<Announcement>>,
    /// Queued announcements per caller.
    pub(crate) announced: Arc<Quotas>,
}

impl Approvals {
    /// Accepts approvers from now on. Until then, calls that need the approval of others are
    /// refused at once.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sets the channel for announcements of waiting calls; only the first call has an effect.
    pub fn announce_to(&self, sender: mpsc::Sender<Announcement>) {
        let _ = self.announcements.set(sender);
    }

    pub(crate) fn announcements(&self) -> Option<&mpsc::Sender<Announcement>> {
        self.announcements.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}

/// An announcement, obsolete once the call no longer waits.
pub struct Announcement {
    pub approval: WaitingApproval,
    pub(crate) over: CancellationToken,
    pub(crate) _share: QuotaPermit,
}

impl Announcement {
    /// Returns whether the call no longer waits, so that the announcement can be dropped.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.approval.expires <= SystemTime::now()
    }
}

/// The details of a waiting call that may be sent outside the gateway.
#[derive(Clone, Debug)]
pub struct WaitingApproval {
    pub id: String,
    /// `issuer|subject`.
    pub caller: String,
    pub organisation: Option<String>,
    /// The listed name.
    pub tool: String,
    pub server: String,
    /// Approvers that the policies require, as text.
    pub needs: Vec<String>,
    pub asked: SystemTime,
    pub expires: SystemTime,
    /// Token of the link to the call's page, valid until `expires`.
    pub token: String,
}

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

#[derive(Default)]
struct Tables {
    asked: HashMap<Nonce, (AskedCall, QuotaPermit)>,
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
        limits: &Limits,
    ) -> Result<(), Exhausted> {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.asked.retain(|_, (asked, _)| asked.expires > now);
        tables.make_room(&call.owner, limits.approvals_per_principal);
        if tables.asked.len() >= limits.approvals {
            return Err(Exhausted::All);
        }
        let share = self.shares.take_of_all(
            &call.owner,
            limits.approvals_per_principal,
            limits.approvals,
        )?;
        tables.asked.insert(nonce, (call, share));
        Ok(())
    }

    /// Removes and returns an answered question, so that it counts only once. It may have expired.
    pub(crate) fn take(&self, nonce: &Nonce) -> Option<AskedCall> {
        Some(self.tables.lock().asked.remove(nonce)?.0)
    }

    /// Allows the paused call's next round without a new approval.
    pub(crate) fn open_round(&self, digest: [u8; 32], limits: &Limits) {
        let mut tables = self.tables.lock();
        let now = Instant::now();
        tables.rounds.retain(|_, until| *until > now);
        if tables.rounds.len() < limits.approvals {
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
        self.tables.lock().asked.values().filter(|(asked, _)| asked.expires > now).count()
    }
}

impl Tables {
    /// Drops the owner's question that expires first if the owner has reached its limit.
    fn make_room(&mut self, owner: &Principal, most: usize) {
        let mut of_owner = 0;
        let mut oldest: Option<(Instant, Nonce)> = None;
        for (nonce, (call, _)) in &self.asked {
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
