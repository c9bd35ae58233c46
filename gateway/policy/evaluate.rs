//! Decides on the arguments of a call, which are parsed once, and finds the denials of policies in
//! dry run for the arguments that the server receives. The target of the call is decided on
//! earlier, in [`crate::verdict`].

use std::sync::Arc;

use serde_json::Value;

use crate::arguments::{self, Pass};
use crate::condition::World;
use crate::file::Effect;
use crate::policy::{DenyReason, Passed, Policy, PolicyDenial, Question};
use crate::rule::DEFAULT;
use crate::rule::Rule;
use crate::verdict::{Dry, Hidden, Judged, Verdict, VerdictState};
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
                    let pass = Pass::of(question.target);
                    self.dry_run_denial(dry, question, pass, || arguments::read(arguments))
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
        if let Some(dry) = &verdict.dry
            && self.parses(&dry.guards)
        {
            return true;
        }
        let VerdictState::Judged(judged) = &verdict.state else { return false };
        judged.rules().into_iter().any(|rules| self.parses(rules))
    }

    fn parses(&self, rules: &[u32]) -> bool {
        for rule in self.rules_at(rules) {
            if let Some(arguments) = &rule.arguments
                && arguments.parses()
            {
                return true;
            }
        }
        false
    }

    fn rules_at<'a>(&'a self, places: &'a [u32]) -> impl Iterator<Item = &'a Rule> {
        places.iter().filter_map(|&at| self.rule(at))
    }

    /// Returns the denial by policies in dry run for an allowed call, based on the arguments that
    /// the server receives.
    fn dry_run_denial(
        &self,
        dry: &Dry,
        question: &Question<'_>,
        mut pass: Pass,
        arguments: impl FnOnce() -> Result<Value, Refusal>,
    ) -> Option<PolicyDenial> {
        if let Some(hidden) = &dry.denies {
            return Some(self.denied(hidden));
        }
        let first = self.name(*dry.guards.first()?);
        match arguments() {
            Ok(mut arguments) => self.guard(&dry.guards, question, &mut arguments, &mut pass).err(),
            Err(refusal) => {
                Some(PolicyDenial { rule: first, reason: DenyReason::Arguments(refusal) })
            }
        }
    }

    fn denied(&self, hidden: &Hidden) -> PolicyDenial {
        let reason = match &hidden.failure {
            Some(words) => DenyReason::Failure(words.clone()),
            None => DenyReason::Hidden,
        };
        PolicyDenial { rule: self.name(hidden.rule), reason }
    }

    fn decide(
        &self,
        judged: &Judged,
        dry: Option<&Dry>,
        question: &Question<'_>,
        text: Option<&[u8]>,
    ) -> Result<Passed, PolicyDenial> {
        let mut arguments = match arguments::read(text) {
            Ok(arguments) => arguments,
            Err(refusal) => {
                let rule = self.name(judged.first());
                return Err(PolicyDenial { rule, reason: DenyReason::Arguments(refusal) });
            }
        };
        let mut pass = Pass::of(question.target);
        let rule = match judged.open {
            Some(at) => self.name(at),
            None => self.permit(&judged.allows, question, &mut arguments, &mut pass)?,
        };
        let approvals = self.approvals(&judged.asks, question, &mut arguments, &mut pass)?;
        self.guard(&judged.guards, question, &mut arguments, &mut pass)?;
        let dry_run =
            dry.and_then(|dry| self.dry_run_denial(dry, question, pass.aside(), || Ok(arguments)));
        if pass.edits.is_empty() {
            return Ok(Passed { rule, arguments: None, dry_run, approvals });
        }
        match arguments::write(text, &pass.edits) {
            Some(text) => Ok(Passed { rule, arguments: Some(text), dry_run, approvals }),
            None => Err(PolicyDenial {
                rule,
                reason: DenyReason::Failure("the changed arguments could not be written".into()),
            }),
        }
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
        let mut arguments = arguments::read(text).ok()?;
        if judged.open.is_none() {
            self.permit(&judged.allows, question, &mut arguments, &mut Pass::of(question.target))
                .ok()?;
        }
        Some(arguments)
    }

    /// Returns the first policy, by name, that allows the call, and applies its changes.
    fn permit(
        &self,
        allows: &[u32],
        question: &Question<'_>,
        arguments: &mut Value,
        pass: &mut Pass,
    ) -> Result<Arc<str>, PolicyDenial> {
        let mut refused = None;
        for rule in self.rules_at(allows) {
            let mut own = arguments.clone();
            let before = pass.edits.len();
            let checked = match rule.undisguised(arguments) {
                Err(refusal) => Err(refusal),
                Ok(()) => match (self.holds(rule, question, arguments), &rule.arguments) {
                    (Err(reason), _) => return Err(PolicyDenial::by(rule, reason)),
                    (Ok(false), _) => no("its condition does not hold for these arguments"),
                    (Ok(true), None) => Ok(()),
                    (Ok(true), Some(rules)) => rules.check(&mut own, pass),
                },
            };
            match checked {
                Ok(()) => {
                    *arguments = own;
                    return Ok(Arc::clone(&rule.name));
                }
                Err(refusal) => {
                    pass.edits.truncate(before);
                    refused.get_or_insert(PolicyDenial::by(rule, DenyReason::Arguments(refusal)));
                }
            }
        }
        Err(refused.unwrap_or(PolicyDenial { rule: DEFAULT.into(), reason: DenyReason::Hidden }))
    }

    /// Returns the approvals that the call requires. The argument rules of an `ask` policy describe
    /// the arguments that need no approval.
    fn approvals(
        &self,
        asks: &[u32],
        question: &Question<'_>,
        arguments: &mut Value,
        pass: &mut Pass,
    ) -> Result<Vec<Arc<ApprovalRule>>, PolicyDenial> {
        let mut needed = Vec::new();
        for rule in self.rules_at(asks) {
            if !self.applies(rule, question, arguments)? {
                continue;
            }
            let before = pass.edits.len();
            let mut own = arguments.clone();
            if let Some(rules) = &rule.arguments
                && rules.check(&mut own, pass).is_ok()
            {
                *arguments = own;
                continue;
            }
            pass.edits.truncate(before);
            needed.extend(rule.approval.clone());
        }
        Ok(needed)
    }

    /// Checks the policies that may deny the call because of its arguments.
    fn guard(
        &self,
        guards: &[u32],
        question: &Question<'_>,
        arguments: &mut Value,
        pass: &mut Pass,
    ) -> Result<(), PolicyDenial> {
        for rule in self.rules_at(guards) {
            if !self.applies(rule, question, arguments)? {
                continue;
            }
            let checked = match &rule.arguments {
                Some(rules) => rules.check(arguments, pass),
                None => no("such calls are not allowed"),
            };
            match (checked, rule.effect) {
                (Ok(()), _) => {}
                (Err(_), Effect::Ask) => {
                    return Err(PolicyDenial::by(rule, DenyReason::Unapproved));
                }
                (Err(refusal), _) => {
                    return Err(PolicyDenial::by(rule, DenyReason::Arguments(refusal)));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a policy that may deny applies to these arguments. It denies arguments that
    /// evade its condition.
    fn applies(
        &self,
        rule: &Rule,
        question: &Question<'_>,
        arguments: &Value,
    ) -> Result<bool, PolicyDenial> {
        let holds = match rule.undisguised(arguments) {
            Ok(()) => self.holds(rule, question, arguments),
            Err(refusal) => Err(DenyReason::Arguments(refusal)),
        };
        holds.map_err(|reason| PolicyDenial::by(rule, reason))
    }

    fn holds(
        &self,
        rule: &Rule,
        question: &Question<'_>,
        arguments: &Value,
    ) -> Result<bool, DenyReason> {
        if rule.is_settled_early() {
            return Ok(true);
        }
        let Question { subject, endpoint, target } = *question;
        let world = World { subject, endpoint, target: Some(target), arguments: Some(arguments) };
        let failed = match rule.holds(world) {
            Ok(holds) => return Ok(holds),
            Err(failed) => failed,
        };
        let words = format!("policy {}: {failed}", rule.name);
        match rule.when.as_ref().and_then(|when| when.amiss(&failed, arguments)) {
            Some(argument) => Err(DenyReason::Unjudged(words, Refusal(argument))),
            None => Err(DenyReason::Failure(words)),
        }
    }
}
