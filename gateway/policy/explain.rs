//! Explanations of decisions: every policy that concerns a call, its result, and the changes that
//! would alter the decision. Explanations are not performance-critical, so each policy is matched
//! against the call individually.

use globset::Glob;
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{self, Pass};
use crate::cases::{Expect, Outcome};
use crate::condition::World;
use crate::file::Effect;
use crate::names::OPEN;
use crate::policy::Question;
use crate::rule::{Rule, What};
use crate::{DEFAULT, Policy, Target, TargetKind, pattern};

const MAX_CHANGES: usize = 10;

/// The explanation of a decision.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// `allow`, `ask`, `deny` or `hidden`.
    pub decision: &'static str,
    /// The deciding policy, or `default`.
    pub rule: String,
    pub words: Option<String>,
    /// The arguments that the server receives, if a policy changes them.
    pub forwards: Option<Value>,
    /// The policies that concern the call, sorted by name.
    pub policies: Vec<Step>,
    /// Changes that would alter the decision.
    pub changes: Vec<String>,
}

/// One policy that concerns the call.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    pub policy: String,
    /// File and line.
    pub place: String,
    pub effect: &'static str,
    pub dry_run: bool,
    /// The result of the policy for this call.
    pub says: String,
}

/// The result of a policy for a call.
enum Says {
    /// The policy does not apply, with the keys that do not match.
    Misfits(Vec<String>),
    Failed(String),
    /// The policy only limits the rate or the results.
    Limits,
    /// The policy applies, and the arguments satisfy its rules.
    Holds,
    Refuses(String),
}

impl Policy {
    /// Explains the decision on a call.
    pub fn explain(&self, question: &Question<'_>, text: Option<&[u8]>) -> Explanation {
        let class = self.class(question.subject, question.endpoint);
        let target = self.deciding(&class, question);
        let question = &Question { target: &target, ..*question };
        let Outcome { decision, rule, words, forwards } = self.answer(question, text);
        let read = arguments::read(text);
        // A `deny` policy sees the arguments as changed by the allowing policy, and a policy in dry
        // run sees those that the server receives.
        let permitted = self.permitted(&self.verdict(&class, question), question, text);
        let mut policies = Vec::new();
        let mut found = Vec::new();
        // While a policy denies the call, another `allow` policy would not change the decision.
        let mut denied = false;
        for rule in &self.rules {
            if rule.what.methods.is_some() {
                continue;
            }
            let seen = match (&forwards, &permitted) {
                _ if rule.effect == Effect::Allow => None,
                (Some(got), _) if rule.dry_run => Some(got),
                (_, got) => got.as_ref(),
            };
            let says = match (&read, says_of_any(rule, question, seen.or(read.as_ref().ok()))) {
                (Err(refusal), Says::Holds) if rule.arguments.is_some() => {
                    Says::Refuses(refusal.0.clone())
                }
                (_, says) => says,
            };
            let holds = matches!(says, Says::Holds) && rule.arguments.is_none();
            let denies = rule.denies() && (holds || matches!(says, Says::Refuses(_)));
            denied |= denies && !rule.dry_run;
            if !rule.dry_run
                && let Some(line) = change(rule, &says, decision)
                && !is_unrelated(rule, &says, question.target)
            {
                let more = rule.effect == Effect::Allow && matches!(says, Says::Misfits(_));
                found.push((more, line));
            }
            policies.extend(step(rule, &says, question.target));
        }
        let found = found.into_iter().filter(|(more, _)| !(*more && denied));
        let mut changes = Vec::from_iter(found.map(|(_, line)| line));
        if decision == Expect::Hidden && rule == DEFAULT && changes.is_empty() {
            changes.push("a policy that allows it".into());
        }
        changes.truncate(MAX_CHANGES);
        Explanation { decision: decision.as_str(), rule, words, forwards, policies, changes }
    }
}

/// Evaluates a policy. A `deny` policy is matched against every form of the URI.
fn says_of_any(rule: &Rule, question: &Question<'_>, arguments: Option<&Value>) -> Says {
    let mut says_it = says(rule, question, arguments);
    for (exposed, own) in question.target.denied_forms() {
        if rule.denies() && matches!(says_it, Says::Misfits(_)) {
            let target = Target { exposed: &exposed, own: &own, ..*question.target };
            says_it = says(rule, &Question { target: &target, ..*question }, arguments);
        }
    }
    says_it
}

fn says(rule: &Rule, question: &Question<'_>, arguments: Option<&Value>) -> Says {
    let Question { subject, endpoint, target } = *question;
    let misfits = rule.misfits(subject, endpoint, target);
    if !misfits.is_empty() {
        return Says::Misfits(misfits);
    }
    if let Some(arguments) = arguments
        && let Err(refusal) = rule.undisguised(arguments)
    {
        return Says::Refuses(refusal.0);
    }
    if rule.is_settled_early() || arguments.is_some() {
        match rule.holds(World { subject, endpoint, target: Some(target), arguments }) {
            Ok(true) => {}
            Ok(false) => return Says::Misfits(vec!["when: the condition is false".into()]),
            Err(failed) => return Says::Failed(failed.to_string()),
        }
    }
    if rule.only_limits() {
        return Says::Limits;
    }
    if let (Some(rules), Some(arguments)) = (&rule.arguments, arguments)
        && let Err(refusal) = rules.check(&mut arguments.clone(), &mut Pass::of(target))
    {
        return Says::Refuses(refusal.0);
    }
    Says::Holds
}

/// Describes the result of a policy that concerns the call.
fn step(rule: &Rule, says: &Says, target: &Target<'_>) -> Option<Step> {
    let named = named_by(rule, target);
    let judged = rule.arguments.is_some();
    let words = match (says, rule.effect) {
        (Says::Misfits(_), _) => return None,
        (Says::Failed(words), _) => format!("cannot be evaluated, so it denies: {words}"),
        (Says::Limits, _) => match (&rule.rate, &rule.response) {
            (None, _) => "limits the response".into(),
            (_, None) => "limits the rate".into(),
            _ => "limits the rate and the response".into(),
        },
        (Says::Holds, Effect::Allow) if judged => "allows it with these arguments".into(),
        (Says::Holds, Effect::Allow) => format!("allows it{named}"),
        (Says::Holds, Effect::Ask) if judged => "does not ask about these arguments".into(),
        (Says::Holds, Effect::Ask) => format!("asks{named}: {}", needs(rule)),
        (Says::Holds, Effect::Deny) if judged => "does not deny these arguments".into(),
        (Says::Holds, Effect::Deny) => format!("denies it{named}"),
        (Says::Refuses(words), Effect::Allow) => {
            format!("would allow it with other arguments: {words}")
        }
        (Says::Refuses(words), Effect::Ask) => {
            format!("asks with these arguments ({words}): {}", needs(rule))
        }
        (Says::Refuses(words), Effect::Deny) => format!("denies it with these arguments: {words}"),
    };
    let effect = rule.effect.as_str();
    let policy = rule.name.to_string();
    let place = rule.place.clone();
    Some(Step { policy, place, effect, dry_run: rule.dry_run, says: words })
}

fn needs(rule: &Rule) -> String {
    rule.approval.as_ref().map(|approval| approval.needs()).unwrap_or_default()
}

/// Returns the word by which a policy selects a tool, as the end of a sentence.
fn named_by(rule: &Rule, target: &Target<'_>) -> String {
    rule.what.word_of(target.own).map(|word| format!(" for the word `{word}`")).unwrap_or_default()
}

/// Returns whether a policy allows only items of other servers.
fn is_unrelated(rule: &Rule, says: &Says, target: &Target<'_>) -> bool {
    let Says::Misfits(all) = says else { return false };
    let of_kind = format!("what.{}s", target.kind.as_str());
    let keys = ["what: ", "what.servers", "what.categories", &of_kind];
    let mut misfits = all.iter().filter(|misfit| keys.iter().any(|key| misfit.starts_with(key)));
    let names = ["/", "__"].map(|separator| [target.server, separator].concat());
    rule.effect == Effect::Allow
        && misfits.any(|misfit| !names.iter().any(|name| misfit.contains(name)))
}

/// Describes a change to this policy that would alter the decision.
fn change(rule: &Rule, says: &Says, decision: Expect) -> Option<String> {
    let name = &rule.name;
    match (decision, rule.effect, says) {
        (Expect::Allow, Effect::Deny, Says::Misfits(all))
            if all.len() == 1 && !rule.only_limits() =>
        {
            Some(format!("policy {name} would apply too, if this matched: {}", all.concat()))
        }
        (Expect::Allow | Expect::Ask, Effect::Ask, Says::Misfits(all)) if all.len() == 1 => {
            Some(format!("policy {name} would ask too, if this matched: {}", all.concat()))
        }
        (Expect::Ask, Effect::Ask, Says::Refuses(words)) => {
            Some(format!("policy {name} would not ask with other arguments: {words}"))
        }
        (Expect::Ask, Effect::Ask, Says::Holds) if rule.arguments.is_none() => Some(format!(
            "policy {name} asks regardless of other policies: narrow its `who` or `what`"
        )),
        (Expect::Allow | Expect::Ask, ..) => None,
        (_, _, Says::Failed(words)) => {
            Some(format!("policy {name} denies until its condition can be evaluated: {words}"))
        }
        (_, Effect::Allow, Says::Misfits(all)) if all.len() == 1 => {
            Some(format!("policy {name} would allow it, if this matched: {}", all.concat()))
        }
        (_, Effect::Allow, Says::Refuses(words)) => {
            Some(format!("policy {name} would allow it with other arguments: {words}"))
        }
        (_, Effect::Deny, Says::Refuses(words)) => {
            Some(format!("policy {name} would not deny it with other arguments: {words}"))
        }
        (_, Effect::Deny, Says::Holds) if rule.arguments.is_none() => Some(format!(
            "policy {name} denies it regardless of other policies: narrow its `who` or `what`"
        )),
        _ => None,
    }
}

// Policies with argument rules that another policy bypasses by allowing the same calls without
// them, for reviews. Patterns are compared as written, so the results are only possible overlaps.

/// Limit of the reported overlaps.
const MAX_TOLD: usize = 20;

/// A policy with argument rules, and another that allows the same without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub policy: String,
    /// Whether the policy also sets arguments.
    pub sets: bool,
    /// The file and line of the policy.
    pub place: String,
    /// The policy that allows the same with any arguments.
    pub other: String,
}

impl Policy {
    /// Returns the argument rules that other policies bypass.
    pub fn overlaps(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for rule in self.allowing() {
            let Some(arguments) = &rule.arguments else { continue };
            let open = self.allowing().filter(|one| one.arguments.is_none() && one.when.is_none());
            let passing = open.filter(|other| gets_past(other, rule));
            let left = MAX_TOLD - overlaps.len();
            overlaps.extend(passing.take(left).map(|other| Overlap {
                policy: rule.name.to_string(),
                sets: arguments.sets(),
                place: rule.place.clone(),
                other: other.name.to_string(),
            }));
        }
        overlaps
    }

    fn allowing(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.effect == Effect::Allow && !rule.dry_run)
    }
}

/// Returns whether `other` allows some targets of `rule` to the same callers. An `other` for fewer
/// callers counts as a deliberate exception.
fn gets_past(other: &Rule, rule: &Rule) -> bool {
    for ((_, others), (_, own)) in other.who.lists.iter().zip(&rule.who.lists) {
        if others.is_some() && (own.is_none() || !meet(others.as_ref(), own.as_ref())) {
            return false;
        }
    }
    if other.who.anonymous.is_some() && other.who.anonymous != rule.who.anonymous {
        return false;
    }
    let a = &other.what;
    let b = &rule.what;
    meet(a.categories.as_ref(), b.categories.as_ref())
        && meet(a.endpoints.as_ref(), b.endpoints.as_ref())
        && meet(a.servers.as_ref(), b.servers.as_ref())
        && of_servers(a, b)
        && of_servers(b, a)
        && (share(a, b, TargetKind::Tool) && share_words(a, b)
            || share(a, b, TargetKind::Prompt) && !a.has_words() && !b.has_words())
}

/// Returns whether an item of a kind may match both, judging by the patterns over names.
fn share(a: &What, b: &What, kind: TargetKind) -> bool {
    match (a.of(kind), b.of(kind)) {
        (Some(a), Some(b)) => fit(a, b) || fit(b, a),
        (in_a, in_b) => {
            (in_a.is_some() || !a.names_kinds()) && (in_b.is_some() || !b.names_kinds())
        }
    }
}

/// Returns whether a tool may have the words of both.
fn share_words(a: &What, b: &What) -> bool {
    if let (Some(a), Some(b)) = (&a.words, &b.words) {
        return a.iter().any(|word| b.contains(word));
    }
    may_have_words(a, b) && may_have_words(b, a)
}

/// Returns whether the words of `one` may match a tool that `other` names. Only literal names can
/// be checked for words.
fn may_have_words(one: &What, other: &What) -> bool {
    let Some(tools) = &other.tools else { return true };
    tools.iter().any(|tool| {
        let text = tool.glob();
        let own = text.split_once('/').or(text.split_once("__")).map_or(text, |(_, own)| own);
        text.contains(OPEN) || one.words_fit(own)
    })
}

/// Returns whether the names in `one` may belong to the servers of `other`.
fn of_servers(one: &What, other: &What) -> bool {
    let Some(servers) = &other.servers else { return true };
    !one.names_kinds() || servers.iter().any(|server| one.may_name(server.glob()))
}

/// Returns whether a name may match both lists.
fn meet(a: Option<&Vec<Glob>>, b: Option<&Vec<Glob>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => fit(a, b) || fit(b, a),
        _ => true,
    }
}

/// Returns whether one of the patterns matches one of the others as written.
fn fit(globs: &[Glob], others: &[Glob]) -> bool {
    others.iter().any(|other| {
        let text = other.glob();
        pattern::any(globs, &[text, &text.replacen("__", "/", 1), &text.replacen('/', "__", 1)])
    })
}
