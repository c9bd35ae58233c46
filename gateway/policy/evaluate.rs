//! Decides on the arguments of a call, which are parsed once, and finds the denials of policies in
//! dry run for the arguments that the server receives. The target of the call is decided on
//! earlier, in [`crate::verdict`].

use std::sync::Arc;

use serde_json::Value;

use crate::arguments::{self, Arguments, Pass};
use crate::condition::World;
use crate::file::Effect;
use crate::policy::{DenyReason, Passed, Policy, PolicyDenial, Question};
use crate::rule::{DEFAULT, Rule};
use crate::verdict::{Hidden, Judged, Verdict, VerdictState};
use crate::{ApprovalRule, Refusal, no};

/// Size of arguments that are always evaluated in less than 5 ms, in bytes.
pub const ALWAYS_QUICK: usize = 128;
/// The same limit if no SQL has to be parsed.
const MAX_QUICK_BYTES: usize = 16 * 1024;

impl Policy {
    /// Decides on a call with these arguments (JSON text).
    ///
    /// # Errors
    /// Returns the denying policy and the reason.
    pub fn evaluate(
        &self,
        verdict: &Verdict,
        question: &Question<'_>,
        arguments: Option<&[u8]>,
    ) -> Result<Passed, PolicyDenial> {
        let dry = verdict.dry.as_deref();
        match &verdict.state {
            VerdictState::Open(at) => {
                let dry_run = dry.and_then(|dry| {
                    self.dry_run_denial(dry, || Evaluation::read(self, question, arguments))
                });
                let rule = self.name(*at);
                Ok(Passed { rule, arguments: None, dry_run, approvals: Vec::new() })
            }
            VerdictState::Hidden(hidden) => Err(self.denied(hidden)),
            VerdictState::Judged(judged) => self.decide(judged, dry, question, arguments),
        }
    }

    /// Returns whether evaluating arguments of this size may take longer than a shared thread may
    /// be blocked: for a short adversarial text, the SQL parser takes milliseconds.
    pub fn evaluates_slowly(&self, verdict: &Verdict, bytes: usize) -> bool {
        if bytes <= ALWAYS_QUICK || !verdict.reads_arguments() {
            return false;
        }
        if bytes > MAX_QUICK_BYTES {
            return true;
        }
        let states = [Some(&verdict.state), verdict.dry.as_deref()].into_iter().flatten();
        let mut judged = states.filter_map(|state| match state {
            VerdictState::Judged(judged) => Some(judged),
            VerdictState::Hidden(_) | VerdictState::Open(_) => None,
        });
        judged.any(|judged| judged.rules().into_iter().any(|rules| self.parses(rules)))
    }

    fn parses(&self, rules: &[usize]) -> bool {
        self.rules_at(rules).filter_map(|rule| rule.arguments.as_ref()).any(Arguments::parses)
    }

    fn rules_at<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = &'a Rule> {
        places.iter().filter_map(|&at| self.rule(at))
    }

    /// Returns the denial by policies in dry run for an allowed call, based on the arguments that
    /// the server receives.
    fn dry_run_denial<'a>(
        &'a self,
        dry: &VerdictState,
        call: impl FnOnce() -> Result<Evaluation<'a>, Refusal>,
    ) -> Option<PolicyDenial> {
        let judged = match dry {
            VerdictState::Open(_) => return None,
            VerdictState::Hidden(hidden) => return Some(self.denied(hidden)),
            VerdictState::Judged(judged) => judged,
        };
        let mut call = match call() {
            Ok(call) => call,
            Err(refusal) => return Some(PolicyDenial::of(self.name(judged.first()), refusal)),
        };
        call.guard(&judged.guards).and_then(|()| call.guard(&judged.asks)).err()
    }

    fn denied(&self, hidden: &Hidden) -> PolicyDenial {
        let reason = hidden.failure.clone().map_or(DenyReason::Hidden, DenyReason::Failure);
        PolicyDenial { rule: self.name(hidden.rule), reason }
    }

    fn decide(
        &self,
        judged: &Judged,
        dry: Option<&VerdictState>,
        question: &Question<'_>,
        text: Option<&[u8]>,
    ) -> Result<Passed, PolicyDenial> {
        let mut call = Evaluation::read(self, question, text).map_err(|refusal| {
            PolicyDenial::of(self.name(judged.open.or(judged.first())), refusal)
        })?;
        let rule = match judged.open {
            Some(at) => self.name(at),
            None => call.permit(&judged.allows)?,
        };
        let approvals = call.approvals(&judged.asks)?;
        call.guard(&judged.guards)?;
        // The edits of policies in dry run are discarded.
        let edits = std::mem::take(&mut call.pass.edits);
        let dry_run = dry.and_then(|dry| self.dry_run_denial(dry, || Ok(call)));
        if edits.is_empty() {
            return Ok(Passed { rule, arguments: None, dry_run, approvals });
        }
        let Some(text) = arguments::write(text, &edits) else {
            let words = "the changed arguments could not be written";
            return Err(PolicyDenial { rule, reason: DenyReason::Failure(words.into()) });
        };
        Ok(Passed { rule, arguments: Some(text), dry_run, approvals })
    }

    /// Returns the arguments that `deny` policies are checked against, as changed by the allowing
    /// policy. `None` if the decision does not depend on arguments, or no policy allows them.
    pub(crate) fn permitted(
        &self,
        verdict: &Verdict,
        question: &Question<'_>,
        text: Option<&[u8]>,
    ) -> Option<Value> {
        let VerdictState::Judged(judged) = &verdict.state else { return None };
        let mut call = Evaluation::read(self, question, text).ok()?;
        if judged.open.is_none() {
            call.permit(&judged.allows).ok()?;
        }
        Some(call.arguments)
    }
}

/// The evaluation of a call's arguments, as changed so far.
struct Evaluation<'a> {
    policy: &'a Policy,
    question: &'a Question<'a>,
    arguments: Value,
    pass: Pass,
}

impl<'a> Evaluation<'a> {
    fn read(
        policy: &'a Policy,
        question: &'a Question<'a>,
        text: Option<&[u8]>,
    ) -> Result<Self, Refusal> {
        let arguments = arguments::read(text)?;
        Ok(Self { policy, question, arguments, pass: Pass::of(question.target) })
    }

    /// Returns the first policy, by name, that allows the call, and applies its changes.
    fn permit(&mut self, allows: &[usize]) -> Result<Arc<str>, PolicyDenial> {
        let mut refused = None;
        for rule in self.policy.rules_at(allows) {
            let checked = match rule.undisguised(&self.arguments) {
                Err(refusal) => Err(refusal),
                Ok(()) => match self.holds(rule) {
                    Err(reason) => return Err(PolicyDenial::by(rule, reason)),
                    Ok(false) => no("its condition does not hold for these arguments"),
                    Ok(true) => rule.arguments.as_ref().map_or(Ok(()), |rules| self.apply(rules)),
                },
            };
            match checked {
                Ok(()) => return Ok(Arc::clone(&rule.name)),
                Err(refusal) => {
                    let name = Arc::clone(&rule.name);
                    refused.get_or_insert(PolicyDenial::of(name, refusal));
                }
            }
        }
        Err(refused.unwrap_or(PolicyDenial { rule: DEFAULT.into(), reason: DenyReason::Hidden }))
    }

    /// Returns the approvals that the call requires. The argument rules of an `ask` policy describe
    /// the arguments that need no approval.
    fn approvals(&mut self, asks: &[usize]) -> Result<Vec<Arc<ApprovalRule>>, PolicyDenial> {
        let mut needed = Vec::new();
        for rule in self.policy.rules_at(asks) {
            let is_satisfied = !self.applies(rule)?
                || rule.arguments.as_ref().is_some_and(|rules| self.apply(rules).is_ok());
            if !is_satisfied {
                needed.extend(rule.approval.clone());
            }
        }
        Ok(needed)
    }

    /// Checks the policies that may deny the call because of its arguments.
    fn guard(&mut self, guards: &[usize]) -> Result<(), PolicyDenial> {
        for rule in self.policy.rules_at(guards) {
            if !self.applies(rule)? {
                continue;
            }
            let checked = match &rule.arguments {
                Some(rules) => rules.check(&mut self.arguments, &mut self.pass),
                None => no("such calls are not allowed"),
            };
            checked.map_err(|refusal| match rule.effect {
                Effect::Ask => PolicyDenial::by(rule, DenyReason::Unapproved),
                Effect::Allow | Effect::Deny => PolicyDenial::of(Arc::clone(&rule.name), refusal),
            })?;
        }
        Ok(())
    }

    /// Checks the arguments against rules and applies their changes, if none is violated.
    fn apply(&mut self, rules: &Arguments) -> Result<(), Refusal> {
        let mut changed = self.arguments.clone();
        let before = self.pass.edits.len();
        let checked = rules.check(&mut changed, &mut self.pass);
        match checked {
            Ok(()) => self.arguments = changed,
            Err(_) => self.pass.edits.truncate(before),
        }
        checked
    }

    /// Returns whether a policy that may deny applies to these arguments. It denies arguments that
    /// evade its condition.
    fn applies(&self, rule: &Rule) -> Result<bool, PolicyDenial> {
        let plain = rule.undisguised(&self.arguments).map_err(DenyReason::Arguments);
        let holds = plain.and_then(|()| self.holds(rule));
        holds.map_err(|reason| PolicyDenial::by(rule, reason))
    }

    fn holds(&self, rule: &Rule) -> Result<bool, DenyReason> {
        if rule.is_settled_early() {
            return Ok(true);
        }
        let arguments = &self.arguments;
        let Question { subject, endpoint, target } = *self.question;
        let world = World { subject, endpoint, target: Some(target), arguments: Some(arguments) };
        rule.holds(world).map_err(|failed| {
            let words = format!("policy {}: {failed}", rule.name);
            match rule.when.as_ref().and_then(|when| when.amiss(&failed, arguments)) {
                Some(argument) => DenyReason::Unjudged(words, Refusal(argument)),
                None => DenyReason::Failure(words),
            }
        })
    }
}
