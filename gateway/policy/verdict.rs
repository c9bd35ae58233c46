//! The decision of the policies on an item for a class of callers, except for the arguments of a
//! call. It is computed once per view and looked up by calls.

use std::sync::Arc;

use crate::file::Effect;
use crate::response::Response;
use crate::rule::Rule;

/// The decision on an item. Valid only for the [`crate::Policy`] that returned it.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub(crate) state: VerdictState,
    /// Policies that limit the rate.
    pub(crate) limits: Box<[u32]>,
    /// The combined limits on results, if a policy sets any.
    pub(crate) response: Option<Arc<Response>>,
    /// The denials of policies in dry run, if there are any.
    pub(crate) dry: Option<Box<Dry>>,
}

#[derive(Clone, Debug)]
pub(crate) enum VerdictState {
    Hidden(Hidden),
    /// Allowed by this policy with any arguments.
    Open(u32),
    Judged(Box<Judged>),
}

impl VerdictState {
    /// Combines policies: a failure denies, `deny` overrides `allow`, and anything that no policy
    /// allows is denied.
    pub(crate) fn of(failed: Option<&(u32, String)>, rules: &[(u32, &Rule)]) -> Self {
        if let Some((at, words)) = failed {
            return Self::Hidden(Hidden { rule: Some(*at), failure: Some(words.clone()) });
        }
        let mut open = None;
        let mut allows = Vec::new();
        let mut guards = Vec::new();
        let mut asks = Vec::new();
        for &(at, rule) in rules {
            let late = rule.arguments.is_some() || !rule.is_settled_early();
            match (rule.effect, late) {
                (Effect::Allow, false) => open = open.or(Some(at)),
                (Effect::Allow, true) => allows.push(at),
                (Effect::Ask, _) => asks.push(at),
                (Effect::Deny, _) if rule.only_limits() => {}
                (Effect::Deny, false) => {
                    return Self::Hidden(Hidden { rule: Some(at), failure: None });
                }
                (Effect::Deny, true) => guards.push(at),
            }
        }
        match (open, allows.is_empty(), guards.is_empty() && asks.is_empty()) {
            (None, true, _) => Self::Hidden(Hidden { rule: None, failure: None }),
            (Some(at), _, true) => Self::Open(at),
            (open, ..) => {
                let allows = if open.is_some() { Box::default() } else { allows.into() };
                let asks = asks.into();
                Self::Judged(Box::new(Judged { open, allows, guards: guards.into(), asks }))
            }
        }
    }
}

/// The reason for hiding an item.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    /// The policy that denies the item; `None` if no policy allows it.
    pub(crate) rule: Option<u32>,
    /// The evaluation error, if that is the reason.
    pub(crate) failure: Option<String>,
}

/// The policies that decide on a call by its arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    /// A policy that allows the call with any arguments.
    pub(crate) open: Option<u32>,
    /// Policies that allow the call with some arguments, sorted by name.
    pub(crate) allows: Box<[u32]>,
    /// Policies that deny the call with some arguments, sorted by name.
    pub(crate) guards: Box<[u32]>,
    /// Policies that may require an approval, sorted by name.
    pub(crate) asks: Box<[u32]>,
}

impl Judged {
    /// Returns all policies except `open`.
    pub(crate) fn rules(&self) -> [&[u32]; 3] {
        [&self.allows, &self.guards, &self.asks]
    }

    /// Returns the policy to report if the arguments cannot be read.
    pub(crate) fn first(&self) -> Option<u32> {
        if self.open.is_some() {
            return self.open;
        }
        for rules in self.rules() {
            if let Some(first) = rules.first() {
                return Some(*first);
            }
        }
        None
    }
}

/// The denials of policies in dry run.
#[derive(Clone, Debug)]
pub(crate) struct Dry {
    /// Set if every call would be denied.
    pub(crate) denies: Option<Hidden>,
    /// Policies that would deny some arguments, or ask about them, sorted by name.
    pub(crate) guards: Box<[u32]>,
}

impl Dry {
    /// Combines policies in dry run; returns `None` if they deny nothing. `allow` policies are
    /// skipped, because they would not change an allowed call.
    pub(crate) fn of(failed: Option<&(u32, String)>, rules: &[(u32, &Rule)]) -> Option<Self> {
        if let Some((at, words)) = failed {
            return Some(Self::denies(Hidden { rule: Some(*at), failure: Some(words.clone()) }));
        }
        let mut guards = Vec::new();
        for &(at, rule) in rules {
            if rule.effect == Effect::Allow || rule.only_limits() {
                continue;
            }
            let whole = rule.arguments.is_none() && rule.is_settled_early();
            if whole && rule.effect == Effect::Deny {
                return Some(Self::denies(Hidden { rule: Some(at), failure: None }));
            }
            guards.push(at);
        }
        if guards.is_empty() {
            return None;
        }
        Some(Self { denies: None, guards: guards.into() })
    }

    fn denies(hidden: Hidden) -> Self {
        Self { denies: Some(hidden), guards: Box::default() }
    }
}

impl Verdict {
    /// Returns whether the item is listed and can be requested.
    pub fn is_visible(&self) -> bool {
        !matches!(self.state, VerdictState::Hidden(_))
    }

    /// Returns whether a call depends on its arguments.
    pub fn reads_arguments(&self) -> bool {
        matches!(self.state, VerdictState::Judged(_))
            || matches!(&self.dry, Some(dry) if !dry.guards.is_empty())
    }

    /// Returns the limits on results; `None` if there are none.
    pub fn response(&self) -> Option<&Arc<Response>> {
        self.response.as_ref()
    }

    /// Returns the evaluation error for the log, if that is why the item is denied.
    pub fn failure(&self) -> Option<&str> {
        match &self.state {
            VerdictState::Hidden(hidden) => hidden.failure.as_deref(),
            _ => None,
        }
    }
}
