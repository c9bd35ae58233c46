//! How often, and how many at a time: what shares an allowance, and asking a limiter for it. The
//! counting itself is behind [`Limiter`].

use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ahash::{AHasher, RandomState};

use crate::file::{Key, Rate};
use crate::limiter::{Held, Limiter, Quota};
use crate::rule::Rule;
use crate::{Subject, Target, pattern};

/// The methods that a policy can limit.
pub(crate) const METHODS: [&str; 15] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "completion/complete",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];
const MAX_RATE: u32 = 1_000_000;

/// The methods that fit one of the patterns, a bit each.
pub(crate) fn methods(patterns: &[String]) -> u32 {
    let globs: Vec<_> = patterns.iter().filter_map(|text| pattern::compile(text).ok()).collect();
    let fits = METHODS.iter().zip(0u32..).filter(|(method, _)| pattern::any(&globs, &[method]));
    fits.fold(0, |bits, (_, at)| bits | 1 << at)
}

/// What makes no sense in a rate, with the key that it is about.
pub(crate) fn check(rate: &Rate) -> Vec<(&'static str, String)> {
    let periods = [
        ("per_second", rate.per_second),
        ("per_minute", rate.per_minute),
        ("per_hour", rate.per_hour),
        ("per_day", rate.per_day),
    ];
    let given: Vec<_> =
        periods.iter().filter_map(|(key, number)| Some((*key, (*number)?))).collect();
    let surplus = given
        .iter()
        .skip(1)
        .map(|(key, _)| (*key, "is one period too many: make a policy for each".into()));
    let mut mistakes: Vec<(&str, String)> = surplus.collect();
    if given.is_empty() && rate.concurrency.is_none() {
        mistakes.push(("per_minute", "must be given, or another period, or `concurrency`".into()));
    } else if given.is_empty() && rate.burst.is_some() {
        mistakes.push(("burst", "needs a period beside it".into()));
    }
    let numbers = [("burst", rate.burst), ("concurrency", rate.concurrency)];
    let all = given.into_iter().map(|(key, n)| (key, Some(n))).chain(numbers);
    let bad = all.filter(|(_, number)| number.is_some_and(|n| !(1..=MAX_RATE).contains(&n)));
    mistakes.extend(bad.map(|(key, _)| (key, format!("must be from 1 to {MAX_RATE}"))));
    mistakes
}

/// The limits of all policies, ready to be asked.
#[derive(Debug)]
pub(crate) struct Limits(Vec<Option<Limit>>);

/// Nobody can choose whom to share an allowance with, and the keys of one set of policies are those
/// of the next.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[derive(Debug)]
struct Limit {
    quota: Quota,
    by: Vec<Key>,
    /// Has read what `by` is, so that no key of one meaning is a key of another.
    hasher: AHasher,
    methods: u32,
}

/// Too much, for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The policy that limits.
    pub rule: Arc<str>,
    /// How long to wait; an estimate where something has to end first.
    pub wait: Duration,
    /// It is about how many run at the same time.
    pub running: bool,
}

impl Limits {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let limit = |rule: &Rule| {
            let rate = rule.rate.as_ref()?;
            let mut by = rate.by.clone().unwrap_or_else(|| vec![Key::Principal]);
            by.sort_unstable();
            by.dedup();
            let patterns: Vec<String> =
                rule.what.methods.iter().flatten().map(|glob| glob.glob().to_owned()).collect();
            let mut hasher = KEYS.build_hasher();
            by.hash(&mut hasher);
            Some(Limit { quota: quota(rate), by, hasher, methods: methods(&patterns) })
        };
        Self(rules.iter().map(limit).collect())
    }

    /// Whether the policy limits requests of this method as such.
    pub(crate) fn is_about(&self, at: u32, method: &str) -> bool {
        let bit = METHODS.iter().position(|known| *known == method);
        let limit = self.0.get(at as usize).and_then(Option::as_ref);
        limit.zip(bit).is_some_and(|(limit, bit)| limit.methods & (1 << bit) != 0)
    }

    /// Takes one from the allowance that the policy gives.
    pub(crate) fn take(
        &self,
        limiter: &dyn Limiter,
        (at, rule): (u32, &Rule),
        subject: &Subject<'_>,
        target: Option<&Target<'_>>,
    ) -> Result<Option<Held>, Limited> {
        let Some(limit) = self.0.get(at as usize).and_then(Option::as_ref) else { return Ok(None) };
        let limited = |(wait, running)| Limited { rule: Arc::clone(&rule.name), wait, running };
        limiter.take(&rule.name, &limit.quota, limit.key(subject, target)).map_err(limited)
    }

    /// Undoes one [`Limits::take`], as far as it is about how often.
    pub(crate) fn give_back(
        &self,
        limiter: &dyn Limiter,
        (at, rule): (u32, &Rule),
        subject: &Subject<'_>,
        target: Option<&Target<'_>>,
    ) {
        if let Some(limit) = self.0.get(at as usize).and_then(Option::as_ref) {
            limiter.give_back(&rule.name, &limit.quota, limit.key(subject, target));
        }
    }
}

impl Limit {
    /// What shares the allowance.
    fn key(&self, subject: &Subject<'_>, target: Option<&Target<'_>>) -> u64 {
        let mut hasher = self.hasher.clone();
        for key in &self.by {
            match key {
                Key::Principal => (subject.issuer, subject.subject).hash(&mut hasher),
                Key::Organisation => (subject.issuer, subject.organisation).hash(&mut hasher),
                Key::Agent => (subject.issuer, subject.agent).hash(&mut hasher),
                Key::Server => target.map(|target| target.server).hash(&mut hasher),
                Key::Tool => target.map(|target| (target.server, target.own)).hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

fn quota(rate: &Rate) -> Quota {
    const PERIODS: [Duration; 4] = [
        Duration::from_secs(1),
        Duration::from_secs(60),
        Duration::from_secs(3600),
        Duration::from_secs(24 * 3600),
    ];
    let given = [rate.per_second, rate.per_minute, rate.per_hour, rate.per_day];
    let some = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let period =
        given.iter().zip(PERIODS).find_map(|(number, period)| Some((some((*number)?), period)));
    let rate_of = |(number, period)| (number, period, rate.burst.map_or(number, some));
    Quota { rate: period.map(rate_of), concurrency: rate.concurrency }
}
