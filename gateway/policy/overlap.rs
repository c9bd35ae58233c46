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
        let allows =
            || self.rules.iter().filter(|rule| rule.effect == Effect::Allow && !rule.dry_run);
        let pairs = allows().filter(|rule| rule.arguments.is_some()).flat_map(|rule| {
            let others = allows().filter(|other| other.arguments.is_none() && other.when.is_none());
            others.filter(|other| gets_past(other, rule)).map(move |other| (rule, other))
        });
        let told = pairs.take(MAX_TOLD).map(|(rule, other)| Overlap {
            policy: rule.name.to_string(),
            sets: rule.arguments.as_ref().is_some_and(|arguments| arguments.sets()),
            place: rule.place.clone(),
            other: other.name.to_string(),
        });
        told.collect()
    }
}

/// Whether `other` allows some of what `rule` is about to the same callers. One that is for fewer
/// callers is an exception that somebody meant.
fn gets_past(other: &Rule, rule: &Rule) -> bool {
    let who = other.who.lists().into_iter().zip(rule.who.lists());
    let mut who = who.map(|((_, other), (_, own))| {
        other.is_none() || own.is_some() && meet(other.as_ref(), own.as_ref())
    });
    let anonymous = other.who.anonymous.is_none() || other.who.anonymous == rule.who.anonymous;
    let a = &other.what;
    let b = &rule.what;
    let lists =
        [(&a.categories, &b.categories), (&a.endpoints, &b.endpoints), (&a.servers, &b.servers)];
    who.all(|fits| fits)
        && anonymous
        && lists.into_iter().all(|(a, b)| meet(a.as_ref(), b.as_ref()))
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
        let own =
            text.split_once('/').or_else(|| text.split_once("__")).map_or(text, |(_, own)| own);
        text.contains(OPEN) || one.words_fit(own)
    })
}

/// Whether what one names may be of the servers that the other is about.
fn of_servers(one: &What, other: &What) -> bool {
    let fits = |servers: &Vec<Glob>| servers.iter().any(|server| one.may_name(server.glob()));
    !one.names_kinds() || other.servers.as_ref().is_none_or(fits)
}

/// Whether something may fit both.
fn meet(a: Option<&Vec<Glob>>, b: Option<&Vec<Glob>>) -> bool {
    a.zip(b).is_none_or(|(a, b)| fit(a, b) || fit(b, a))
}

/// Whether one of these patterns fits one of the others as it is written.
fn fit(globs: &[Glob], others: &[Glob]) -> bool {
    others.iter().any(|other| {
        let text = other.glob();
        pattern::any(globs, &[text, &text.replacen("__", "/", 1), &text.replacen('/', "__", 1)])
    })
}
