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
    pub(crate) limits: Box<[usize]>,
    /// The combined limits on results, if a policy sets any.
    pub(crate) response: Option<Arc<Response>>,
    /// The decision of the policies in dry run on a call that the others allow; `None` if they
    /// allow it. It has no policies that allow.
    pub(crate) dry: Option<Box<VerdictState>>,
}

#[derive(Clone, Debug)]
pub(crate) enum VerdictState {
    Hidden(Hidden),
    /// Allowed by this policy with any arguments.
    Open(usize),
    Judged(Box<Judged>),
}

impl VerdictState {
    /// Combines policies: a failure denies, `deny` overrides `allow`, and anything that no policy
    /// allows is denied. `open` is a policy that is known to allow.
    pub(crate) fn of(
        mut open: Option<usize>,
        failed: Option<&(usize, String)>,
        rules: &[(usize, &Rule)],
    ) -> Self {
        if let Some((at, words)) = failed {
            return Self::Hidden(Hidden { rule: Some(*at), failure: Some(words.clone()) });
        }
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
    pub(crate) rule: Option<usize>,
    /// The evaluation error, if that is the reason.
    pub(crate) failure: Option<String>,
}

/// The policies that decide on a call by its arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    /// A policy that allows the call with any arguments.
    pub(crate) open: Option<usize>,
    /// Policies that allow the call with some arguments, sorted by name.
    pub(crate) allows: Box<[usize]>,
    /// Policies that deny the call with some arguments, sorted by name.
    pub(crate) guards: Box<[usize]>,
    /// Policies that may require an approval, sorted by name.
    pub(crate) asks: Box<[usize]>,
}

impl Judged {
    /// Returns all policies except `open`.
    pub(crate) fn rules(&self) -> [&[usize]; 3] {
        [&self.allows, &self.guards, &self.asks]
    }

    /// Returns the first policy except `open`, to report if the arguments cannot be read.
    pub(crate) fn first(&self) -> Option<usize> {
        self.rules().into_iter().flatten().next().copied()
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
            || matches!(self.dry.as_deref(), Some(VerdictState::Judged(_)))
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
