//! What policies say of one thing for one kind of caller, as far as that is known without the
//! arguments of a call. It is made once for each view; a call looks it up.

use std::sync::Arc;

use crate::file::Effect;
use crate::response::Response;
use crate::rule::Rule;

/// See the module. Belongs to the [`crate::Policy`] that made it.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub(crate) state: State,
    /// Policies that limit how often.
    pub(crate) limits: Box<[u32]>,
    /// What may come back, where a policy says something about it.
    pub(crate) response: Option<Arc<Response>>,
    /// What policies in dry run would deny, where there are such.
    pub(crate) dry: Option<Box<Dry>>,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    Hidden(Hidden),
    /// Allowed by this policy, whatever the arguments are.
    Open(u32),
    Judged(Box<Judged>),
}

impl State {
    /// What some policies come to together: a failure denies, deny overrides allow, and silence
    /// denies.
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

/// Why something is not there.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    /// The policy that denies it; none when no policy allows it.
    pub(crate) rule: Option<u32>,
    /// Why a policy could not be evaluated, if that is the reason.
    pub(crate) failure: Option<String>,
}

/// What a call depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    /// A policy that allows it whatever the arguments are.
    pub(crate) open: Option<u32>,
    /// Policies that allow it with some arguments, by name.
    pub(crate) allows: Box<[u32]>,
    /// Policies that deny it with some arguments, by name.
    pub(crate) guards: Box<[u32]>,
    /// Policies that may have it approved first, by name.
    pub(crate) asks: Box<[u32]>,
}

impl Judged {
    /// Its policies, but for the one that allows it whatever the arguments are.
    pub(crate) fn rules(&self) -> [&[u32]; 3] {
        [&self.allows, &self.guards, &self.asks]
    }

    /// The policy that is named when the arguments cannot even be read.
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

/// What policies in dry run would deny.
#[derive(Clone, Debug)]
pub(crate) struct Dry {
    /// Every call.
    pub(crate) denies: Option<Hidden>,
    /// Policies that would deny it with some arguments, or ask about it, by name.
    pub(crate) guards: Box<[u32]>,
}

impl Dry {
    /// What policies in dry run would deny; nothing where they cannot. One that allows changes no
    /// call that may be made.
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
    /// Whether it is there at all: listed, and answered when it is asked for.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        !matches!(self.state, State::Hidden(_))
    }

    /// Whether a call depends on its arguments.
    #[must_use]
    pub fn reads_arguments(&self) -> bool {
        matches!(self.state, State::Judged(_))
            || matches!(&self.dry, Some(dry) if !dry.guards.is_empty())
    }

    /// What may come back; anything without it.
    #[must_use]
    pub fn response(&self) -> Option<&Arc<Response>> {
        self.response.as_ref()
    }

    /// A policy could not be evaluated, so this is denied: words for the log.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Hidden(hidden) => hidden.failure.as_deref(),
            _ => None,
        }
    }
}
