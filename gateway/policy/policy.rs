//! The compiled policies of one configuration, which make the same decision for lists and calls.
//! They are immutable: a changed configuration is compiled again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::class::{Class, Classes};
use crate::compile::{self, PolicyError};
use crate::condition::World;
use crate::config::Config;
use crate::file::Effect;
use crate::index::Index;
use crate::limiter::{HeldPermit, Limiter};
use crate::rate::{Limit, Limited};
use crate::response::Response;
use crate::rule::{DEFAULT, Rule};
use crate::verdict::{Verdict, VerdictState};
use crate::{ApprovalRule, Refusal, Subject, Target};

/// The compiled policies of a configuration.
#[derive(Debug)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) index: Index,
    classes: Classes,
    /// The class of all callers, if the policies treat them alike.
    everybody: Option<Arc<Class>>,
    /// Whether a policy may deny a resource by how its URI is written.
    denies_by_uri: bool,
    version: u64,
    fingerprint: [u8; 32],
}

/// The input of a decision: a caller, an endpoint and a target.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub subject: &'a Subject<'a>,
    /// The path of the endpoint, such as `/mcp`.
    pub endpoint: &'a str,
    pub target: &'a Target<'a>,
}

/// The result for an allowed call.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The policy that allows the call.
    pub rule: Arc<str>,
    /// The arguments to forward in place of those that were sent, as JSON text.
    pub arguments: Option<Vec<u8>>,
    /// The denial that policies in dry run would have caused.
    pub dry_run: Option<PolicyDenial>,
    /// The approvals that the call requires.
    pub approvals: Vec<Arc<ApprovalRule>>,
}

/// The result for a denied call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDenial {
    /// The policy that denies the call, or [`DEFAULT`].
    pub rule: Arc<str>,
    pub reason: DenyReason,
}

impl PolicyDenial {
    pub(crate) fn by(rule: &Rule, reason: DenyReason) -> Self {
        Self { rule: Arc::clone(&rule.name), reason }
    }

    pub(crate) fn of(rule: Arc<str>, refusal: Refusal) -> Self {
        Self { rule, reason: DenyReason::Arguments(refusal) }
    }
}

/// The reason for denying a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenyReason {
    /// The target is hidden from the caller.
    Hidden,
    /// The arguments are refused, with a message for the caller.
    Arguments(Refusal),
    /// A policy could not be evaluated, with a message for the log.
    Failure(String),
    /// A policy could not be evaluated because of an argument, with a message for the log and one
    /// for the caller, which sent the argument.
    Unjudged(String, Refusal),
    /// The call would require an approval. Occurs only for policies in dry run.
    Unapproved,
}

impl Policy {
    /// Compiles the policies of a configuration.
    ///
    /// # Errors
    /// Returns every mistake in the policies.
    pub fn compile(config: &Config) -> Result<Self, Vec<PolicyError>> {
        static VERSION: AtomicU64 = AtomicU64::new(1);
        let rules = compile::rules(config)?;
        let index = Index::new(&rules).map_err(|words| {
            let what = format!("the patterns are too large together: {words}");
            vec![compile::mistake(&["policy", "files"], what, "use fewer or simpler patterns")]
        })?;
        let mut tells_apart = index.tells_callers_apart();
        let mut denies_by_uri = false;
        for rule in &rules {
            // A condition may depend on the caller or on the endpoint.
            tells_apart |= rule.when.is_some();
            denies_by_uri |= rule.denies_by_uri();
        }
        let mut new = Self {
            classes: Classes::new(),
            everybody: None,
            denies_by_uri,
            version: VERSION.fetch_add(1, Ordering::Relaxed),
            fingerprint: config.fingerprint(),
            rules,
            index,
        };
        if !tells_apart {
            new.everybody = Some(Arc::new(new.find(&Subject::default(), "")));
        }
        Ok(new)
    }

    /// Returns a hash that is equal for policies that are written alike.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Returns the class of every caller at every endpoint, if the policies treat all alike.
    pub fn everybody(&self) -> Option<&Arc<Class>> {
        self.everybody.as_ref()
    }

    /// Returns the policies that concern a caller at an endpoint.
    pub fn class(&self, subject: &Subject<'_>, endpoint: &str) -> Arc<Class> {
        match &self.everybody {
            Some(class) => Arc::clone(class),
            None => self.classes.get(subject, endpoint, || self.find(subject, endpoint)),
        }
    }

    fn find(&self, subject: &Subject<'_>, endpoint: &str) -> Class {
        let mut bits = self.index.concerning(subject, endpoint);
        let mut broken = Vec::new();
        let mut personal = false;
        for at in &bits.clone() {
            let Some(rule) = self.rule(at) else { continue };
            let Some(when) = &rule.when else { continue };
            if when.needs_target() || when.needs_arguments() {
                personal |= when.needs_target() && when.needs_subject();
                continue;
            }
            match rule.holds(World { subject, endpoint, target: None, arguments: None }) {
                Ok(true) => {}
                Ok(false) => {
                    bits.remove(at);
                }
                Err(failed) => broken.push((at, format!("policy {}: {failed}", rule.name))),
            }
        }
        let methods = Vec::from_iter(self.index.methods().iter().filter(|at| bits.contains(*at)));
        Class::new(bits, broken, methods.into(), self.version, personal.then_some(subject))
    }

    pub(crate) fn rule(&self, at: usize) -> Option<&Rule> {
        self.rules.get(at)
    }

    /// Returns the name of a policy; [`DEFAULT`] for none.
    pub(crate) fn name(&self, at: impl Into<Option<usize>>) -> Arc<str> {
        match at.into().and_then(|at| self.rule(at)) {
            Some(rule) => Arc::clone(&rule.name),
            None => DEFAULT.into(),
        }
    }

    /// Evaluates the policies of a class for a target, without the arguments of a call.
    #[must_use]
    pub fn verdict(&self, class: &Class, question: &Question<'_>) -> Verdict {
        let mut broken = Vec::new();
        let mut concerned = self.concerned(class, question, &mut broken);
        let forms = if self.denies_by_uri { question.target.denied_forms() } else { Vec::new() };
        for (exposed, own) in forms {
            let target = Target { exposed: &exposed, own: &own, ..*question.target };
            let mut failed = Vec::new();
            let question = Question { target: &target, ..*question };
            let others = self.concerned(class, &question, &mut failed);
            concerned.extend(others.into_iter().filter(|(_, rule)| rule.denies()));
            failed.retain(|(at, _)| self.rule(*at).is_some_and(Rule::denies));
            broken.append(&mut failed);
        }
        concerned.sort_by_key(|(at, _)| *at);
        concerned.dedup_by_key(|(at, _)| *at);
        let mut limits = Vec::new();
        let mut responses = Vec::new();
        let mut deciding = Vec::new();
        let mut on_trial = Vec::new();
        for (at, rule) in concerned {
            if rule.rate.is_some() {
                limits.push(at);
            }
            if rule.dry_run {
                on_trial.push((at, rule));
                continue;
            }
            responses.extend(&rule.response);
            deciding.push((at, rule));
        }
        // `allow` policies in dry run would not change an allowed call.
        let dry = VerdictState::of(Some(0), self.first_failure(&broken, true), &on_trial);
        Verdict {
            limits: limits.into(),
            dry: (!matches!(dry, VerdictState::Open(_))).then(|| Box::new(dry)),
            response: Response::all(responses).map(Arc::new),
            state: VerdictState::of(None, self.first_failure(&broken, false), &deciding),
        }
    }

    /// Returns the first evaluation error of policies in dry run, or of all other policies.
    fn first_failure<'a>(
        &self,
        broken: &'a [(usize, String)],
        dry_run: bool,
    ) -> Option<&'a (usize, String)> {
        broken.iter().find(|(at, _)| self.rule(*at).is_some_and(|rule| rule.dry_run) == dry_run)
    }

    /// Returns the policies of a class that concern a target, in order. Adds those that cannot be
    /// evaluated to `broken`.
    fn concerned(
        &self,
        class: &Class,
        question: &Question<'_>,
        broken: &mut Vec<(usize, String)>,
    ) -> Vec<(usize, &Rule)> {
        let Question { subject, endpoint, target } = *question;
        let about = self.index.about(&class.bits, &self.rules, target);
        broken.extend(class.broken.iter().filter(|(at, _)| about.contains(*at)).cloned());
        let mut concerned: Vec<(usize, &Rule)> = Vec::new();
        for at in &about {
            let Some(rule) = self.rule(at) else { continue };
            let holds = match &rule.when {
                Some(when) if when.needs_target() && !when.needs_arguments() => {
                    when.holds(World { subject, endpoint, target: Some(target), arguments: None })
                }
                _ => Ok(true),
            };
            match holds {
                Ok(true) => concerned.push((at, rule)),
                Ok(false) => {}
                Err(failed) => broken.push((at, format!("policy {}: {failed}", rule.name))),
            }
        }
        concerned
    }

    /// Returns whether a class may see a server before its items are known: some policy may allow
    /// an item, and none denies the whole server.
    pub fn reaches(&self, class: &Class, server: &str) -> bool {
        if self.first_failure(&class.broken, false).is_some() {
            return false;
        }
        let mut is_allowed = false;
        for at in &self.index.about_server(&class.bits, server) {
            let Some(rule) = self.rule(at) else { continue };
            if rule.dry_run {
                continue;
            }
            if rule.denies_whole_servers() {
                return false;
            }
            is_allowed |= rule.effect == Effect::Allow
                && (rule.what.is_of_whole_servers() || rule.what.may_name(server));
        }
        is_allowed
    }

    /// Returns whether a class may read every resource of a server, judging by the policies alone:
    /// some policy allows all resources, and none denies or asks about any.
    pub fn hides_no_resource(&self, class: &Class, server: &str) -> bool {
        if self.first_failure(&class.broken, false).is_some() {
            return false;
        }
        let mut is_allowed = false;
        for at in &self.index.about_server(&class.bits, server) {
            let Some(rule) = self.rule(at) else { continue };
            if rule.dry_run || rule.only_limits() || !rule.what.may_be_of_resources() {
                continue;
            }
            if rule.effect != Effect::Allow {
                return false;
            }
            is_allowed |=
                rule.when.is_none() && rule.arguments.is_none() && rule.what.is_of_all_resources();
        }
        is_allowed
    }

    /// Takes a request from every allowance that concerns it, or from none. The returned permits
    /// are held while the request runs.
    ///
    /// # Errors
    /// Returns the first limit that is reached.
    pub fn limit(
        &self,
        limiter: &dyn Limiter,
        class: &Class,
        method: &str,
        subject: &Subject<'_>,
        about: Option<(&Verdict, &Target<'_>)>,
    ) -> Result<Vec<HeldPermit>, Limited> {
        let mut held = Vec::new();
        let (verdict, target) = about.unzip();
        for (taken, limit) in self.limiting(class, method, verdict).enumerate() {
            match limiter.take(limit.allowance(), &limit.key(subject, target)) {
                Ok(place) => held.extend(place),
                Err(reached) => {
                    // A caller that exceeds its own allowance must not use up a shared one.
                    for limit in self.limiting(class, method, verdict).take(taken) {
                        limiter.give_back(limit.allowance(), &limit.key(subject, target));
                    }
                    return Err(Limited { rule: Arc::clone(&limit.rule), reached });
                }
            }
        }
        Ok(held)
    }

    /// Returns the limits of a method, and of the target that it is called for.
    fn limiting<'a>(
        &'a self,
        class: &'a Class,
        method: &'a str,
        verdict: Option<&'a Verdict>,
    ) -> impl Iterator<Item = &'a Limit> {
        let of_method = self.limits_at(&class.methods);
        let of_method = of_method.filter(move |limit| limit.is_about(method));
        of_method.chain(self.limits_at(verdict.map_or(&[], |verdict| &verdict.limits)))
    }

    fn limits_at<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = &'a Limit> {
        places.iter().filter_map(|&at| self.rule(at)?.rate.as_ref())
    }

    /// Returns the policy that hides an item, or [`DEFAULT`]; `None` if the item is visible.
    #[must_use]
    pub fn hides(&self, verdict: &Verdict) -> Option<Arc<str>> {
        match &verdict.state {
            VerdictState::Hidden(hidden) => Some(self.name(hidden.rule)),
            _ => None,
        }
    }
}
