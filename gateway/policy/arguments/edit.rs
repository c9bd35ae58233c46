//! Writes arguments with values that policies set or rewrite. Other values keep their text.

use std::collections::HashMap;

use lockgate_text::json;
use serde_json::Value;
use serde_json::value::RawValue;

/// A value to put at a position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edit {
    pub(crate) at: Vec<String>,
    pub(crate) value: Value,
}

/// Puts a value into the tree; returns false if the position does not exist.
pub(crate) fn put(tree: &mut Value, at: &[String], value: &Value) -> bool {
    let Some((step, rest)) = at.split_first() else {
        *tree = value.clone();
        return true;
    };
    match tree {
        Value::Object(object) if rest.is_empty() => {
            object.insert(step.clone(), value.clone());
            true
        }
        Value::Object(object) => object.get_mut(step).is_some_and(|inner| put(inner, rest, value)),
        Value::Array(items) => {
            let Ok(at) = step.parse::<usize>() else { return false };
            let Some(item) = items.get_mut(at) else { return false };
            put(item, rest, value)
        }
        _ => false,
    }
}

/// Applies all edits to the text, in order; returns `None` if the text lacks a position.
pub(crate) fn write(text: Option<&[u8]>, edits: &[Edit]) -> Option<Vec<u8>> {
    let text = match text {
        Some(text) => std::str::from_utf8(text).ok()?,
        None => "{}",
    };
    let steps: Vec<Step<'_>> = edits.iter().map(|edit| (edit.at.as_slice(), &edit.value)).collect();
    Some(written(text, &steps)?.into_bytes())
}

/// The remaining steps of an edit, and its value.
type Step<'a> = (&'a [String], &'a Value);

/// Applies all edits in one pass, because there may be one for each item of a list.
fn written(text: &str, edits: &[Step<'_>]) -> Option<String> {
    if let Some(last) = edits.iter().rposition(|(at, _)| at.is_empty()) {
        return written(&edits[last].1.to_string(), &edits[last + 1..]);
    }
    let mut inner = Inner::of(edits);
    if inner.order.is_empty() {
        return Some(text.to_owned());
    }
    if text.trim_start().starts_with('[') {
        let items: Vec<&RawValue> = json::from_str(text).ok()?;
        let mut out = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            out.push(inner.written(&at.to_string(), item.get())?);
        }
        if !inner.edits.is_empty() {
            return None;
        }
        return Some(format!("[{}]", out.join(",")));
    }
    let Members(members) = json::from_str(text).ok()?;
    let mut out: Vec<String> = Vec::with_capacity(members.len() + 1);
    for (key, value) in &members {
        out.push(format!("{}:{}", Value::from(key.as_str()), inner.written(key, value.get())?));
    }
    for key in std::mem::take(&mut inner.order) {
        if let Some(edits) = inner.edits.remove(key) {
            // A new member must be created before anything can be put into it.
            if !matches!(edits.first(), Some((at, _)) if at.is_empty()) {
                return None;
            }
            out.push(format!("{}:{}", Value::from(key), written("null", &edits)?));
        }
    }
    Some(format!("{{{}}}", out.join(",")))
}

/// Edits grouped by their first step.
struct Inner<'a> {
    edits: HashMap<&'a str, Vec<Step<'a>>>,
    order: Vec<&'a str>,
}

impl<'a> Inner<'a> {
    fn of(edits: &[Step<'a>]) -> Self {
        let mut inner = Self { edits: HashMap::new(), order: Vec::new() };
        for (at, value) in edits {
            if let Some((step, rest)) = at.split_first() {
                let known = inner.edits.entry(step).or_default();
                if known.is_empty() {
                    inner.order.push(step);
                }
                known.push((rest, value));
            }
        }
        inner
    }

    /// Writes a value with its edits.
    fn written(&mut self, step: &str, text: &str) -> Option<String> {
        match self.edits.remove(step) {
            Some(edits) => written(text, &edits),
            None => Some(text.to_owned()),
        }
    }
}

/// The members of an object in order, with the values as written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests;
