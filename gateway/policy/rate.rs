//! Rates of policies: validation, and requests for permits. The counting itself is done by a
//! [`crate::Limiter`].

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;

use crate::file::{Key, Rate};
use crate::limiter::{Allowance, LimitKey, Quota, Reached};
use crate::pattern;
use crate::refusal::{Mistake, mistake};
use crate::{Subject, Target};

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

/// Returns the methods that match one of the patterns.
pub(crate) fn methods(patterns: &[Glob]) -> Vec<&'static str> {
    METHODS.into_iter().filter(|method| pattern::any(patterns, &[method])).collect()
}

/// Returns the mistakes in a rate.
pub(crate) fn check(rate: &Rate) -> Vec<Mistake> {
    let periods = periods(rate).into_iter();
    let mut given = Vec::from_iter(periods.filter_map(|(key, number, _)| Some((key, number?))));
    let mut mistakes = Vec::new();
    for (key, _) in given.iter().skip(1) {
        mistakes.push(mistake(&[key], "is a second period: write a policy for each period"));
    }
    if given.is_empty() && rate.concurrency.is_none() {
        let what = "is missing: set it, another period, or `concurrency`";
        mistakes.push(mistake(&["per_minute"], what));
    } else if given.is_empty() && rate.burst.is_some() {
        mistakes.push(mistake(&["burst"], "needs a period, such as `per_minute`"));
    }
    if given.is_empty() && rate.when_away.is_some() {
        mistakes.push(mistake(&["when_away"], "needs a period, such as `per_minute`"));
    }
    given.extend(rate.burst.map(|number| ("burst", number)));
    given.extend(rate.concurrency.map(|number| ("concurrency", number)));
    for (key, number) in given {
        if !(1..=MAX_RATE).contains(&number) {
            mistakes.push(mistake(&[key], format!("must be from 1 to {MAX_RATE}")));
        }
    }
    mistakes
}

/// A compiled rate.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The name of the policy.
    pub(crate) rule: Arc<str>,
    quota: Quota,
    by: Vec<Key>,
    /// The limited methods.
    methods: Vec<&'static str>,
}

/// A request that exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The name of the policy.
    pub rule: Arc<str>,
    /// The limit that was reached.
    pub reached: Reached,
}

impl Limit {
    pub(crate) fn new(rule: &str, rate: &Rate, about: Option<&[Glob]>) -> Self {
        let mut by = rate.by.as_ref().map_or_else(|| vec![Key::Principal], |by| by.clone());
        by.sort_unstable();
        by.dedup();
        Self { rule: rule.into(), quota: quota(rate), by, methods: methods(about.unwrap_or(&[])) }
    }

    /// Returns whether all requests of this method are limited.
    pub(crate) fn is_about(&self, method: &str) -> bool {
        self.methods.contains(&method)
    }

    pub(crate) fn allowance(&self) -> Allowance<'_> {
        Allowance { policy: &self.rule, quota: &self.quota }
    }

    /// Returns the key of a request.
    pub(crate) fn key<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        target: Option<&'a Target<'a>>,
    ) -> LimitKey<'a> {
        LimitKey::new(&self.by, subject, target)
    }
}

/// Returns the numbers per period, with their keys and the periods in seconds.
fn periods(rate: &Rate) -> [(&'static str, Option<u32>, u64); 4] {
    [
        ("per_second", rate.per_second, 1),
        ("per_minute", rate.per_minute, 60),
        ("per_hour", rate.per_hour, 3600),
        ("per_day", rate.per_day, 24 * 3600),
    ]
}

fn quota(rate: &Rate) -> Quota {
    let given = periods(rate).into_iter().find_map(|(_, number, seconds)| Some((number?, seconds)));
    let paced = given.map(|(number, seconds)| {
        let burst = rate.burst.unwrap_or(number);
        (at_least_one(number), Duration::from_secs(seconds), at_least_one(burst))
    });
    let when_away = rate.when_away.unwrap_or_default();
    Quota { rate: paced, concurrency: rate.concurrency, when_away }
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}
