//! Plain bounds of a value: equality, patterns, lengths and ranges of numbers.

use regex::Regex;
use serde_json::Value;

use crate::Refusal;
use crate::file;

const MAX_PATTERN: usize = 1024;
/// Largest compiled expression.
const PATTERN_SIZE: usize = 1 << 20;

/// Compiled bounds.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    spec: file::Bounds,
    pattern: Option<Regex>,
}

/// A regular expression that has to match the whole text; it runs in linear time.
pub(crate) fn whole(pattern: &str) -> Result<Regex, String> {
    // By itself first: `a)|(b` would otherwise escape from the anchors.
    expression(pattern, pattern.len())?;
    expression(&format!("^(?:{pattern})$"), pattern.len())
}

/// A regular expression, bounded.
pub(crate) fn expression(pattern: &str, length: usize) -> Result<Regex, String> {
    if length > MAX_PATTERN {
        return Err(format!("is longer than {MAX_PATTERN} bytes"));
    }
    let built = regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build();
    built.map_err(|error| {
        let words = error.to_string();
        format!("is no regular expression: {}", words.lines().last().unwrap_or_default().trim())
    })
}

impl Bounds {
    pub(crate) fn compile(spec: &file::Bounds) -> Result<Self, String> {
        let nothing = spec.equals.is_none()
            && spec.one_of.is_none()
            && spec.none_of.is_none()
            && spec.pattern.is_none()
            && spec.min_length.or(spec.max_length).is_none()
            && spec.min.or(spec.max).is_none();
        if nothing {
            return Err("says nothing".into());
        }
        if spec.min_length.zip(spec.max_length).is_some_and(|(min, max)| min > max)
            || spec.min.zip(spec.max).is_some_and(|(min, max)| min > max)
        {
            return Err("has a minimum above its maximum".into());
        }
        let pattern = spec.pattern.as_deref().map(whole).transpose()?;
        Ok(Self { spec: spec.clone(), pattern })
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), Refusal> {
        let spec = &self.spec;
        if let Some(wanted) = spec.equals.as_ref().filter(|wanted| !same(wanted, value)) {
            return refuse(format!("must be {wanted}"));
        }
        if let Some(words) = spec.one_of.as_ref().filter(|all| !all.iter().any(|one| same(one, value))) {
            return refuse(format!("must be one of {}", listed(words)));
        }
        if spec.none_of.as_ref().is_some_and(|all| all.iter().any(|one| same(one, value))) {
            return refuse(format!("must not be {value}"));
        }
        if let Some(pattern) = &self.pattern {
            let Some(text) = value.as_str() else { return refuse("must be text".into()) };
            if !pattern.is_match(text) {
                return refuse(format!("must match {}", spec.pattern.as_deref().unwrap_or_default()));
            }
        }
        self.length(value)?;
        self.range(value)
    }

    fn length(&self, value: &Value) -> Result<(), Refusal> {
        let (min, max) = (self.spec.min_length, self.spec.max_length);
        if min.or(max).is_none() {
            return Ok(());
        }
        let (length, unit) = match value {
            Value::String(text) => (text.chars().count(), "characters"),
            Value::Array(items) => (items.len(), "items"),
            _ => return refuse("must be text or a list".into()),
        };
        let length = length as u64;
        match (min, max) {
            (Some(min), _) if length < min => refuse(format!("must have at least {min} {unit}")),
            (_, Some(max)) if length > max => refuse(format!("must have at most {max} {unit}")),
            _ => Ok(()),
        }
    }

    fn range(&self, value: &Value) -> Result<(), Refusal> {
        let (min, max) = (self.spec.min, self.spec.max);
        if min.or(max).is_none() {
            return Ok(());
        }
        let Some(number) = value.as_f64() else { return refuse("must be a number".into()) };
        match (min, max) {
            (Some(min), _) if number < min => refuse(format!("must be at least {min}")),
            (_, Some(max)) if number > max => refuse(format!("must be at most {max}")),
            _ => Ok(()),
        }
    }
}

fn refuse(words: String) -> Result<(), Refusal> {
    Err(Refusal(words))
}

fn listed(all: &[Value]) -> String {
    let shown: Vec<String> = all.iter().take(10).map(Value::to_string).collect();
    let more = if all.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Equal as JSON values; numbers by their value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq() || a == b),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
