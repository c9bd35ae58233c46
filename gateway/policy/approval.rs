//! The approvals that a policy requires for a call. This module describes the approvers and their
//! number; it does not wait for approvals.

use std::sync::Arc;
use std::time::Duration;

use crate::Subject;
use crate::class::Who;
use crate::file::{self, Effect};
use crate::refusal::{Mistake, mistake};

const MAX_APPROVALS: u32 = 10;
/// Limit of the time for an approval, in seconds.
const MAX_EXPIRES: u32 = 3600;

/// The approval that an `ask` policy requires.
#[derive(Debug)]
pub struct ApprovalRule {
    /// The name of the policy.
    pub rule: Arc<str>,
    /// The required number of different approvers.
    pub approvals: usize,
    /// The time limit, if the policy sets one.
    pub expires: Option<Duration>,
    /// The approvers; the caller if `None`.
    by: Option<Who>,
}

impl ApprovalRule {
    pub(crate) fn new(policy: &file::Policy, by: Option<Who>) -> Self {
        let spec = policy.approval.clone().unwrap_or_default();
        let approvals = spec.approvals.unwrap_or(1) as usize;
        let expires = spec.expires.map(|seconds| Duration::from_secs(seconds.into()));
        Self { rule: policy.name.as_str().into(), approvals, expires, by }
    }

    /// Returns whether the caller approves its own call.
    pub fn is_for_caller(&self) -> bool {
        self.by.is_none()
    }

    /// Returns whether `subject`, if it is not the caller, may approve.
    pub fn accepts(&self, subject: &Subject<'_>) -> bool {
        matches!(&self.by, Some(who) if who.fits(subject))
    }

    /// Returns whether the policy restricts the organisations of the approvers.
    pub fn names_organisations(&self) -> bool {
        let Some(who) = &self.by else { return false };
        who.lists.iter().any(|(key, list)| *key == "organisations" && list.is_some())
    }

    /// Describes the required approvals.
    pub fn needs(&self) -> String {
        let rule = &self.rule;
        match (&self.by, self.approvals) {
            (None, _) => format!("policy {rule} needs an approval of the caller"),
            (Some(who), 1) => format!("policy {rule} needs an approval by {}", who.describe()),
            (Some(who), count) => {
                format!("policy {rule} needs {count} approvals by {}", who.describe())
            }
        }
    }
}

/// Returns the mistakes in the `approval` of a policy.
pub(crate) fn check(policy: &file::Policy) -> Vec<Mistake> {
    let Some(approval) = &policy.approval else { return Vec::new() };
    let mut found = Vec::new();
    if policy.effect != Effect::Ask {
        found.push(mistake(&[], "is only for an `ask` policy"));
    }
    let count = approval.approvals.unwrap_or(1);
    if !(1..=MAX_APPROVALS).contains(&count) {
        found.push(mistake(&["approvals"], "must be from 1 to 10"));
    }
    if count > 1 && approval.by.is_none() {
        found.push(mistake(&["approvals"], "needs a `by`: the caller is one person"));
    }
    if let Some(seconds) = approval.expires
        && !(1..=MAX_EXPIRES).contains(&seconds)
    {
        found.push(mistake(&["expires"], "must be from 1 to 3600 seconds"));
    }
    let Some(who) = &approval.by else { return found };
    if who.is_anybody() {
        let what = "is empty: name the approvers, such as roles: [approver]";
        found.push(mistake(&["by"], what));
    }
    if who.anonymous == Some(true) {
        let what = "cannot be true: approvers must have a credential";
        found.push(mistake(&["by", "anonymous"], what));
    }
    found
}

#[cfg(test)]
mod tests;
