//! Simple bounds of a value: equality, patterns, lengths and ranges of numbers.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::{Number, Value};

use crate::file;
use crate::{Refusal, no};

const MAX_PATTERN: usize = 1024;
/// Size limit of a compiled expression, in bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// 2^53: every integer up to here is exact as a float.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    spec: file::Bounds,
    pattern: Option<Regex>,
}

/// Compiles an expression that must match the whole text. Matching takes linear time.
pub(crate) fn whole(pattern: &str) -> Result<Regex, String> {
    // Compiled alone first, because `a)|(b` would escape the anchors.
    expression(pattern, pattern.len())?;
    expression(&format!("^(?:{pattern})$"), pattern.len())
}

pub(crate) fn expression(pattern: &str, length: usize) -> Result<Regex, String> {
    if length > MAX_PATTERN {
        return Err(format!("is longer than {MAX_PATTERN} bytes"));
    }
    regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().map_err(|error| {
        let words = error.to_string();
        let last = words.lines().last().unwrap_or("");
        format!("is not a valid regular expression: {}", last.trim())
    })
}

impl Bounds {
    pub(crate) fn compile(spec: &file::Bounds) -> Result<Self, String> {
        if *spec == file::Bounds::default() {
            return Err("has no bound".into());
        }
        if is_crossed(spec) {
            return Err("has a minimum above its maximum".into());
        }
        if matches!(&spec.one_of, Some(all) if all.is_empty()) {
            return Err(
                "can never match: `one_of` is empty; write `forbid: true` to refuse the argument"
                    .into(),
            );
        }
        if let Some(wanted) = &spec.equals {
            let is_missing = matches!(&spec.one_of, Some(all) if !has(all, wanted, false));
            let is_excluded = matches!(&spec.none_of, Some(all) if has(all, wanted, false));
            if is_missing || is_excluded {
                return Err(format!(
                    "can never match: the other lists refuse {wanted}, the value of `equals`"
                ));
            }
        }
        let pattern = spec.pattern.as_deref().map(whole).transpose()?;
        Ok(Self { spec: spec.clone(), pattern })
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), Refusal> {
        let spec = &self.spec;
        if let Some(wanted) = &spec.equals
            && !same(wanted, value, false)
        {
            return no(format!("must be {wanted}"));
        }
        if let Some(all) = &spec.one_of
            && !has(all, value, false)
        {
            return no(format!("must be one of {}", listed(all)));
        }
        if let Some(all) = &spec.none_of
            && has(all, value, true)
        {
            return no(format!("must not be {value}"));
        }
        if let Some(pattern) = &self.pattern {
            let Some(text) = value.as_str() else { return no("must be text") };
            if !pattern.is_match(text) {
                return no(format!("must match {}", spec.pattern.as_deref().unwrap_or("")));
            }
        }
        self.length(value)?;
        self.range(value)
    }

    fn length(&self, value: &Value) -> Result<(), Refusal> {
        let min = self.spec.min_length;
        let max = self.spec.max_length;
        if min.or(max).is_none() {
            return Ok(());
        }
        let (length, unit) = match value {
            Value::String(text) => (text.chars().count(), "characters"),
            Value::Array(items) => (items.len(), "items"),
            _ => return no("must be text or a list"),
        };
        let length = length as u64;
        match (min, max) {
            (Some(min), _) if length < min => no(format!("must have at least {min} {unit}")),
            (_, Some(max)) if length > max => no(format!("must have at most {max} {unit}")),
            _ => Ok(()),
        }
    }

    fn range(&self, value: &Value) -> Result<(), Refusal> {
        let min = self.spec.min.as_ref();
        let max = self.spec.max.as_ref();
        if min.or(max).is_none() {
            return Ok(());
        }
        let Value::Number(number) = value else { return no("must be a number") };
        for bound in [min, max].into_iter().flatten() {
            if is_vague(number, bound) {
                return no("must be written as a whole number: with a fraction or an exponent it \
                    is ambiguous");
            }
        }
        match (min, max) {
            (Some(min), _) if stand(number, min).is_lt() => no(format!("must be at least {min}")),
            (_, Some(max)) if stand(number, max).is_gt() => no(format!("must be at most {max}")),
            _ => Ok(()),
        }
    }
}

fn is_crossed(spec: &file::Bounds) -> bool {
    let is_length =
        matches!((spec.min_length, spec.max_length), (Some(min), Some(max)) if min > max);
    is_length || matches!((&spec.min, &spec.max), (Some(min), Some(max)) if stand(min, max).is_gt())
}

fn listed(all: &[Value]) -> String {
    let shown: Vec<_> = all.iter().take(10).map(|value| value.to_string()).collect();
    let more = if all.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Returns whether one of these values is the [`same`].
fn has(all: &[Value], value: &Value, vague: bool) -> bool {
    all.iter().any(|one| same(one, value, vague))
}

/// Returns whether two JSON values are equal, with numbers compared by value. `vague` is the result
/// for a number that could be several.
fn same(wanted: &Value, value: &Value, vague: bool) -> bool {
    match (wanted, value) {
        (Value::Number(a), Value::Number(b)) if is_vague(b, a) => vague,
        (Value::Number(a), Value::Number(b)) => stand(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, vague))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| matches!(b.get(key), Some(b) if same(a, b, vague)))
        }
        (a, b) => a == b,
    }
}

/// Returns whether the sent number is, or may be, rounded while the other is an integer: from 2^53
/// on, not every integer is exact as a float.
fn is_vague(sent: &Number, other: &Number) -> bool {
    if sent.as_i128().is_some() || other.as_i128().is_none() {
        return false;
    }
    sent.as_f64().is_none_or(|float| float.abs() >= MAX_EXACT_INTEGER)
}

/// Compares two numbers. Integers are compared exactly, also with floats.
fn stand(a: &Number, b: &Number) -> Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => whole_to_float(a, to_float(b)),
        (None, Some(b)) => whole_to_float(b, to_float(a)).reverse(),
        (None, None) => to_float(a).partial_cmp(&to_float(b)).unwrap_or(Ordering::Equal),
    }
}

fn to_float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(0.0)
}

/// Compares an integer with a float. Floats in JSON are finite.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the whole part, of which larger ones are the largest"
)]
fn whole_to_float(whole: i128, float: f64) -> Ordering {
    let part = float.trunc();
    whole.cmp(&(part as i128)).then_with(|| part.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests;
