//! Calls held until approvers other than their callers have decided. A vote is confirmed only while
//! the call can still proceed, which it cannot after its client has disconnected.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockgate_authn::{LOCAL, Principal};
use lockgate_policy::ApprovalRule;
use lockgate_text::date;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::config::Limits;
use crate::quota::{Exhausted, QuotaPermit, Quotas};
use crate::rights::subject;

/// Completed calls that are still listed to their approvers, of at most 64 KiB each.
const MAX_ENDED: usize = 64;
/// How long completed calls are listed.
const ENDED_SHOWN: Duration = Duration::from_secs(600);

/// The decision on a held call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The principals that approved.
    Approved(Vec<Principal>),
    Denied(Principal),
}

/// Why an approver's vote does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproverError {
    #[error("no call with this id is waiting for your approval")]
    Unknown,
    #[error("you made this call: another approver must approve it")]
    Own,
    #[error("you have already approved this call: another approver must approve it too")]
    Twice,
    #[error("the audit trail cannot record the vote, so it does not count: retry later")]
    Unrecorded,
}

pub(crate) fn join_names(rules: &[Arc<ApprovalRule>]) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| &*rule.rule).collect();
    names.join(", ")
}

/// Records a vote that counts while the call waits for more.
pub(crate) type RecordVote<'a> = &'a dyn Fn(&WaitingCall) -> Result<(), ApproverError>;

/// A principal that lists waiting calls or votes on them.
#[derive(Clone, Copy)]
pub struct Approver<'a> {
    pub(crate) principal: &'a Principal,
    /// Operators are members of every organisation.
    pub(crate) is_operator: bool,
}

pub(crate) struct WaitingCall {
    pub(crate) id: String,
    pub(crate) requester: Principal,
    pub(crate) shown: Value,
    pub(crate) rules: Vec<Arc<ApprovalRule>>,
    pub(crate) asked: SystemTime,
    pub(crate) expires: SystemTime,
    votes: Mutex<Votes>,
}

struct Votes {
    /// The approvers so far, each with the rules that the approval counts for.
    approved: Vec<(Principal, Vec<bool>)>,
    sender: Option<oneshot::Sender<Ending>>,
    /// The decision, once there is one.
    ending: Option<Ending>,
}

/// A completed call.
struct EndedCall {
    call: Arc<WaitingCall>,
    state: &'static str,
    at: SystemTime,
}

/// The calls, shared with the permits.
#[derive(Default)]
struct Calls {
    waiting: Mutex<BTreeMap<String, Arc<WaitingCall>>>,
    /// Oldest first.
    ended: Mutex<VecDeque<EndedCall>>,
    /// Sent after every change of either.
    changes: watch::Sender<()>,
}

#[derive(Default)]
pub struct WaitingCalls {
    calls: Arc<Calls>,
    shares: Arc<Quotas>,
}

/// A slot among the waiting calls; the call is removed on drop.
pub(crate) struct WaitingPermit {
    calls: Arc<Calls>,
    id: String,
    _share: QuotaPermit,
}

impl Drop for WaitingPermit {
    fn drop(&mut self) {
        let removed = self.calls.waiting.lock().remove(&self.id);
        if let Some(call) = removed {
            self.calls.keep_ended(call);
        }
        self.calls.changes.send_replace(());
    }
}

impl Calls {
    fn keep_ended(&self, call: Arc<WaitingCall>) {
        let at = SystemTime::now();
        let state = call.final_state(at);
        let mut ended = self.ended.lock();
        if ended.len() == MAX_ENDED {
            ended.pop_front();
        }
        ended.push_back(EndedCall { call, state, at });
    }
}

impl WaitingCall {
    pub(crate) fn new(
        id: String,
        requester: Principal,
        shown: Value,
        rules: Vec<Arc<ApprovalRule>>,
        expires: SystemTime,
    ) -> (Self, oneshot::Receiver<Ending>) {
        let (sender, receiver) = oneshot::channel();
        let votes = Mutex::new(Votes { approved: Vec::new(), sender: Some(sender), ending: None });
        let asked = SystemTime::now();
        (Self { id, requester, shown, rules, asked, expires, votes }, receiver)
    }

    /// Returns for which rules an approval counts, or `None` if it counts for none.
    fn counts(&self, approver: Approver<'_>) -> Option<Vec<bool>> {
        let subject = subject(approver.principal);
        // Local and anonymous callers need no credential, so they may be the requester itself.
        if subject.is_anonymous() || subject.issuer == LOCAL {
            return None;
        }
        let organisation = approver.principal.organisation();
        let is_member = approver.is_operator || organisation == self.requester.organisation();
        // A rule accepts members of another organisation only if it names organisations.
        let accepts = self
            .rules
            .iter()
            .map(|rule| rule.accepts(&subject) && (is_member || rule.names_organisations()));
        let counts: Vec<bool> = accepts.collect();
        if counts.contains(&true) { Some(counts) } else { None }
    }

    /// Returns the call for an eligible approver, and `None` for others and the requester.
    fn show_to(&self, approver: Approver<'_>) -> Option<Value> {
        if is_same_person(&self.requester, approver.principal) {
            return None;
        }
        self.counts(approver)?;
        let left = self.expires.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
        let mut shown = self.shown.clone();
        shown["id"] = self.id.as_str().into();
        shown["expires_in"] = left.as_secs().into();
        shown["policies"] = self.progress(&self.votes.lock());
        Some(shown)
    }

    /// Returns the state of a completed call.
    fn final_state(&self, now: SystemTime) -> &'static str {
        match &self.votes.lock().ending {
            Some(Ending::Approved(_)) => "approved",
            Some(Ending::Denied(_)) => "denied",
            None if now >= self.expires => "expired",
            None => "left",
        }
    }

    /// Returns the names of the approvers that decided.
    fn deciders(&self) -> Vec<String> {
        match &self.votes.lock().ending {
            Some(Ending::Approved(voters)) => voters.iter().map(name_of).collect(),
            Some(Ending::Denied(voter)) => vec![name_of(voter)],
            None => Vec::new(),
        }
    }

    /// Reports for each rule how many approvals it has and needs.
    fn progress(&self, votes: &Votes) -> Value {
        let rules = self.rules.iter().enumerate().map(|(at, rule)| {
            let has = approvals_of(votes, at);
            json!({"policy": &*rule.rule, "approvals": has, "needed": rule.approvals})
        });
        rules.collect()
    }

    fn has_enough(&self, votes: &Votes) -> bool {
        let mut rules = self.rules.iter().enumerate();
        rules.all(|(at, rule)| approvals_of(votes, at) >= rule.approvals)
    }

    fn vote(
        &self,
        approver: Approver<'_>,
        approve: bool,
        record: RecordVote<'_>,
    ) -> Result<Value, ApproverError> {
        let Some(counts) = self.counts(approver) else { return Err(ApproverError::Unknown) };
        let voter = approver.principal;
        if is_same_person(voter, &self.requester) {
            return Err(ApproverError::Own);
        }
        let mut votes = self.votes.lock();
        if votes.sender.is_none() {
            return Err(ApproverError::Unknown);
        }
        if approve && votes.approved.iter().any(|(earlier, _)| is_same_person(earlier, voter)) {
            return Err(ApproverError::Twice);
        }
        if approve {
            votes.approved.push((voter.clone(), counts));
        }
        let ending = match (approve, self.has_enough(&votes)) {
            (false, _) => Some(Ending::Denied(voter.clone())),
            (true, true) => Some(Ending::Approved(voters_of(&votes))),
            (true, false) => None,
        };
        let decided = ending.is_some();
        if let Some(ending) = ending {
            let Some(sender) = votes.sender.take() else { return Err(ApproverError::Unknown) };
            votes.ending = Some(ending.clone());
            if sender.send(ending).is_err() {
                votes.ending = None;
                return Err(ApproverError::Unknown);
            }
        } else if matches!(&votes.sender, Some(sender) if sender.is_closed()) {
            return Err(ApproverError::Unknown);
        } else if let Err(error) = record(self) {
            votes.approved.pop();
            return Err(error);
        }
        let state = match (approve, decided) {
            (false, _) => "denied",
            (true, true) => "approved",
            (true, false) => "waiting",
        };
        Ok(json!({"id": self.id, "state": state, "policies": self.progress(&votes)}))
    }
}

/// Returns the name of a key, or the subject of another credential.
pub(crate) fn name_of(principal: &Principal) -> String {
    principal.key_name.as_deref().unwrap_or(&principal.subject).to_owned()
}

/// Compares identities regardless of organisation and roles.
fn is_same_person(one: &Principal, other: &Principal) -> bool {
    one.issuer == other.issuer && one.subject == other.subject
}

fn approvals_of(votes: &Votes, rule: usize) -> usize {
    votes.approved.iter().filter(|(_, counts)| counts.get(rule) == Some(&true)).count()
}

fn voters_of(votes: &Votes) -> Vec<Principal> {
    votes.approved.iter().map(|(voter, _)| voter.clone()).collect()
}

impl WaitingCalls {
    /// Adds a call until its permit is dropped.
    ///
    /// # Errors
    /// The limit of all callers, of the requester or of its organisation is reached.
    pub(crate) fn hold(
        &self,
        call: WaitingCall,
        limits: &Limits,
    ) -> Result<WaitingPermit, Exhausted> {
        let most = limits.approvals;
        let own = limits.approvals_per_principal;
        let share = self.shares.take_of_all(&call.requester, own, most)?;
        let mut calls = self.calls.waiting.lock();
        if calls.len() >= most {
            return Err(Exhausted::All);
        }
        let id = call.id.clone();
        calls.insert(id.clone(), Arc::new(call));
        drop(calls);
        self.calls.changes.send_replace(());
        Ok(WaitingPermit { calls: Arc::clone(&self.calls), id, _share: share })
    }

    /// Lists the calls that the approver may decide on, oldest first, with the times at which they
    /// began to wait.
    pub fn list(&self, approver: Approver<'_>) -> Vec<(SystemTime, Value)> {
        let mut calls: Vec<_> = self.calls.waiting.lock().values().cloned().collect();
        calls.sort_by_key(|call| call.asked);
        calls.iter().filter_map(|call| Some((call.asked, call.show_to(approver)?))).collect()
    }

    /// Returns the call with this id if the approver may decide on it.
    pub fn find(&self, approver: Approver<'_>, id: &str) -> Option<Value> {
        self.get(id)?.show_to(approver)
    }

    /// Lists the tools of the requester's own calls that wait.
    pub fn list_tools_of(&self, requester: &Principal) -> Vec<String> {
        let waiting = self.calls.waiting.lock();
        let own = waiting.values().filter(|call| is_same_person(&call.requester, requester));
        own.map(|call| call.shown["tool"].as_str().unwrap_or("").to_owned()).collect()
    }

    fn get(&self, id: &str) -> Option<Arc<WaitingCall>> {
        self.calls.waiting.lock().get(id).cloned()
    }

    /// Counts a vote and returns the call's new state.
    ///
    /// # Errors
    /// [`ApproverError`].
    pub(crate) fn vote(
        &self,
        id: &str,
        approver: Approver<'_>,
        approve: bool,
        record: RecordVote<'_>,
    ) -> Result<(Arc<WaitingCall>, Value), ApproverError> {
        let Some(call) = self.get(id) else { return Err(ApproverError::Unknown) };
        let state = call.vote(approver, approve, record)?;
        self.calls.changes.send_replace(());
        Ok((call, state))
    }

    /// Lists the recently completed calls that the approver could decide on, newest first, with
    /// their final state, its time and the deciding approvers.
    pub fn list_ended(&self, approver: Approver<'_>) -> Vec<(SystemTime, Value)> {
        let now = SystemTime::now();
        let mut ended = self.calls.ended.lock();
        ended.retain(|one| now.duration_since(one.at).unwrap_or_default() < ENDED_SHOWN);
        let shown = ended.iter().rev().filter_map(|one| {
            let mut shown = one.call.show_to(approver)?;
            shown["state"] = one.state.into();
            shown["ended_at"] = date::of_time(one.at).into();
            shown["by"] = one.call.deciders().into();
            Some((one.at, shown))
        });
        shown.collect()
    }

    /// Subscribes to changes of the calls that wait for any approver.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.calls.changes.subscribe()
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.waiting.lock().len()
    }
}

#[cfg(test)]
mod tests;
