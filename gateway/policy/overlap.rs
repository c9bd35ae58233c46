//! Finds policies with argument rules that another policy bypasses by allowing the same calls
//! without them. It serves reviews of policies and makes no decisions. It compares patterns as
//! written, so its results are only possible overlaps.

use globset::Glob;

use crate::file::Effect;
use crate::names::OPEN;
use crate::pattern;
use crate::rule::{Rule, What};
use crate::{Policy, TargetKind};

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
            for other in self.allowing() {
                let is_open = other.arguments.is_none() && other.when.is_none();
                if !is_open || !gets_past(other, rule) {
                    continue;
                }
                overlaps.push(Overlap {
                    policy: rule.name.to_string(),
                    sets: arguments.sets(),
                    place: rule.place.clone(),
                    other: other.name.to_string(),
                });
                if overlaps.len() == MAX_TOLD {
                    return overlaps;
                }
            }
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
    for ((_, others), (_, own)) in other.who.lists().into_iter().zip(rule.who.lists()) {
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
        let own = match (text.split_once('/'), text.split_once("__")) {
            (Some((_, own)), _) | (None, Some((_, own))) => own,
            (None, None) => text,
        };
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
