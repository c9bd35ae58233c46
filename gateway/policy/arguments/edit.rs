//! Arguments with values that policy puts in: everything else stays byte for byte as it was sent.

use serde_json::Value;
use serde_json::value::RawValue;

/// A value that stands at a place from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edit {
    pub(crate) at: Vec<String>,
    pub(crate) value: Value,
}

/// Puts a value into the tree; false when there is no such place.
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
            step.parse::<usize>().ok().and_then(|n| items.get_mut(n)).is_some_and(|item| put(item, rest, value))
        }
        _ => false,
    }
}

/// The text with all edits; `None` when it is not what the edits were made for.
pub(crate) fn write(text: Option<&[u8]>, edits: &[Edit]) -> Option<Vec<u8>> {
    let mut text = text.map_or_else(|| b"{}".to_vec(), <[u8]>::to_vec);
    for edit in edits {
        text = written(std::str::from_utf8(&text).ok()?, &edit.at, &edit.value)?.into_bytes();
    }
    Some(text)
}

fn written(text: &str, at: &[String], value: &Value) -> Option<String> {
    let Some((step, rest)) = at.split_first() else { return Some(value.to_string()) };
    if text.trim_start().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let wanted: usize = step.parse().ok()?;
        let one = |(n, item): (usize, &&RawValue)| match n == wanted {
            true => written(item.get(), rest, value),
            false => Some(item.get().to_owned()),
        };
        let items: Option<Vec<String>> = items.iter().enumerate().map(one).collect();
        return Some(format!("[{}]", items?.join(",")));
    }
    let Members(members) = serde_json::from_str(text).ok()?;
    let mut out: Vec<String> = Vec::with_capacity(members.len() + 1);
    let mut there = false;
    for (key, inner) in &members {
        let inner = if key == step {
            there = true;
            written(inner.get(), rest, value)?
        } else {
            inner.get().to_owned()
        };
        out.push(format!("{}:{inner}", Value::from(key.as_str())));
    }
    if !there {
        if !rest.is_empty() {
            return None;
        }
        out.push(format!("{}:{value}", Value::from(step.as_str())));
    }
    Some(format!("{{{}}}", out.join(",")))
}

/// The members of an object in their order, values as they were written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
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
