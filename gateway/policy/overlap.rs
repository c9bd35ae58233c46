//! Policies that look at arguments and are got past: another one allows the same calls without
//! looking at them. It is for people who check policies, and goes by how patterns are written, so
//! it tells what may be; it decides nothing.

use globset::Glob;

use crate::file::Effect;
use crate::names::OPEN;
use crate::pattern;
use crate::rule::{Rule, What};
use crate::{Kind, Policy};

/// Most of them that are told.
const MAX_TOLD: usize = 20;

/// A policy with rules for arguments, and another one that allows the same without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub policy: String,
    /// It also puts values in.
    pub sets: bool,
    /// The file and line where it stands.
    pub place: String,
    /// The policy that allows the same whatever the arguments are.
    pub other: String,
}

impl Policy {
    /// See the module.
    #[must_use]
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

/// Whether `other` allows some of what `rule` is about to the same callers. One that is for fewer
/// callers is an exception that somebody meant.
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
        && (share(a, b, Kind::Tool) && share_words(a, b)
            || share(a, b, Kind::Prompt) && !a.has_words() && !b.has_words())
}

/// Whether something of a kind may fit both, going by the patterns over names.
fn share(a: &What, b: &What, kind: Kind) -> bool {
    match (a.of(kind), b.of(kind)) {
        (Some(a), Some(b)) => fit(a, b) || fit(b, a),
        (in_a, in_b) => {
            (in_a.is_some() || !a.names_kinds()) && (in_b.is_some() || !b.names_kinds())
        }
    }
}

/// Whether a tool may have the words that both ask for.
fn share_words(a: &What, b: &What) -> bool {
    if let (Some(a), Some(b)) = (&a.words, &b.words) {
        return a.iter().any(|word| b.contains(word));
    }
    may_have_words(a, b) && may_have_words(b, a)
}

/// Whether the words of one may fit a tool that the other names. Only a name that is written out
/// has words to look at.
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

/// Whether what one names may be of the servers that the other is about.
fn of_servers(one: &What, other: &What) -> bool {
    let Some(servers) = &other.servers else { return true };
    !one.names_kinds() || servers.iter().any(|server| one.may_name(server.glob()))
}

/// Whether something may fit both.
fn meet(a: Option<&Vec<Glob>>, b: Option<&Vec<Glob>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => fit(a, b) || fit(b, a),
        _ => true,
    }
}

/// Whether one of these patterns fits one of the others as it is written.
fn fit(globs: &[Glob], others: &[Glob]) -> bool {
    others.iter().any(|other| {
        let text = other.glob();
        pattern::any(globs, &[text, &text.replacen("__", "/", 1), &text.replacen('/', "__", 1)])
    })
}
