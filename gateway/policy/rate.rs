//! Rates of policies: validation, and requests for permits. The counting itself is done by a
//! [`Limiter`].

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;

use crate::file::{Key, Rate};
use crate::limiter::{Allowance, HeldPermit, LimitKey, Limiter, Quota, Reached};
use crate::pattern::Matcher;
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

/// Returns the methods that match one of the patterns, as bits by their index in [`METHODS`].
pub(crate) fn methods(patterns: &[Glob]) -> u32 {
    let mut bits = 0;
    for glob in patterns {
        let matcher = Matcher::new(glob);
        for (at, method) in METHODS.iter().enumerate() {
            bits |= u32::from(matcher.fits(method)) << at;
        }
    }
    bits
}

/// Returns the mistakes in a rate.
pub(crate) fn check(rate: &Rate) -> Vec<Mistake> {
    let periods = [
        ("per_second", rate.per_second),
        ("per_minute", rate.per_minute),
        ("per_hour", rate.per_hour),
        ("per_day", rate.per_day),
    ];
    let mut mistakes = Vec::new();
    let mut given = Vec::new();
    for (key, number) in periods {
        if let Some(number) = number {
            if !given.is_empty() {
                mistakes
                    .push(mistake(&[key], "is a second period: write a policy for each period"));
            }
            given.push((key, number));
        }
    }
    if given.is_empty() && rate.concurrency.is_none() {
        mistakes
            .push(mistake(&["per_minute"], "is missing: set it, another period, or `concurrency`"));
    } else if given.is_empty() && rate.burst.is_some() {
        mistakes.push(mistake(&["burst"], "needs a period, such as `per_minute`"));
    }
    if given.is_empty() && rate.when_away.is_some() {
        mistakes.push(mistake(&["when_away"], "needs a period, such as `per_minute`"));
    }
    for (key, number) in [("burst", rate.burst), ("concurrency", rate.concurrency)] {
        if let Some(number) = number {
            given.push((key, number));
        }
    }
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
    quota: Quota,
    by: Vec<Key>,
    /// The limited methods, as bits.
    methods: u32,
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
    pub(crate) fn new(rate: &Rate, about: Option<&[Glob]>) -> Self {
        let mut by = rate.by.as_ref().map_or_else(|| vec![Key::Principal], |by| by.clone());
        by.sort_unstable();
        by.dedup();
        Self { quota: quota(rate), by, methods: methods(about.unwrap_or(&[])) }
    }

    /// Returns whether all requests of this method are limited.
    pub(crate) fn is_about(&self, method: &str) -> bool {
        match METHODS.iter().position(|known| *known == method) {
            Some(bit) => self.methods & (1 << bit) != 0,
            None => false,
        }
    }

    /// Takes a request from the allowance of the policy `rule`.
    pub(crate) fn take(
        &self,
        limiter: &dyn Limiter,
        rule: &Arc<str>,
        subject: &Subject<'_>,
        target: Option<&Target<'_>>,
    ) -> Result<Option<HeldPermit>, Limited> {
        let key = LimitKey::new(&self.by, subject, target);
        limiter
            .take(Allowance { policy: rule, quota: &self.quota }, &key)
            .map_err(|reached| Limited { rule: Arc::clone(rule), reached })
    }

    /// Undoes the rate count of a [`Limit::take`].
    pub(crate) fn give_back(
        &self,
        limiter: &dyn Limiter,
        rule: &str,
        subject: &Subject<'_>,
        target: Option<&Target<'_>>,
    ) {
        let key = LimitKey::new(&self.by, subject, target);
        limiter.give_back(Allowance { policy: rule, quota: &self.quota }, &key);
    }
}

fn quota(rate: &Rate) -> Quota {
    let mut quota = Quota {
        rate: None,
        concurrency: rate.concurrency,
        when_away: rate.when_away.unwrap_or_default(),
    };
    for (number, seconds) in [
        (rate.per_second, 1),
        (rate.per_minute, 60),
        (rate.per_hour, 3600),
        (rate.per_day, 24 * 3600),
    ] {
        if let Some(number) = number
            && quota.rate.is_none()
        {
            let burst = rate.burst.unwrap_or(number);
            let period = Duration::from_secs(seconds);
            quota.rate = Some((at_least_one(number), period, at_least_one(burst)));
        }
    }
    quota
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}
