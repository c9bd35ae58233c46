//! JSON with places, and with the comments and trailing commas of editors' files. Rejects duplicate
//! keys and deep nesting. Positions are derived from the addresses of serde_json's raw values in
//! the text.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::node::{Lines, MAX_NESTING, Node, NodeEntry, STOPPED, Value};
use crate::problem::{Problem, ValuePlace};

pub fn read(path: &Arc<PathBuf>, text: &str) -> Result<Node, Problem> {
    let text = strip(text);
    let lines = Lines::new(path, &text);
    let reader = Reader { text: &text, place: &|at| lines.place(at) };
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(root) => reader.node(root, 0),
        Err(error) => {
            let place = lines.at(error.line(), error.column());
            let what = format!("not valid JSON: {}", plain(&error));
            Err(Problem::error(place, "", what).hint(STOPPED))
        }
    }
}

/// Parses a JSON value from an environment variable; all of it has the same `place`.
pub fn read_value(text: &str, place: &ValuePlace) -> Option<Node> {
    let reader = Reader { text, place: &|_| place.clone() };
    let root: &RawValue = serde_json::from_str(text).ok()?;
    reader.node(root, 0).ok()
}

/// Returns serde_json's message without the position, which is reported separately.
fn plain(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.split_once(" at line ") {
        Some((words, _)) => words.to_string(),
        None => message,
    }
}

struct Reader<'a> {
    text: &'a str,
    place: &'a dyn Fn(usize) -> ValuePlace,
}

impl Reader<'_> {
    fn node(&self, raw: &RawValue, depth: usize) -> Result<Node, Problem> {
        let text = raw.get();
        let at = text.as_ptr() as usize - self.text.as_ptr() as usize;
        let place = (self.place)(at);
        if depth > MAX_NESTING {
            return Err(Problem::error(place, "", format!("nested deeper than {MAX_NESTING}")));
        }
        match self.value(text, depth) {
            Ok(value) => Ok(Node::new(value, place)),
            Err(JsonError::Known(problem)) => Err(problem),
            Err(JsonError::Syntax(error)) => {
                Err(Problem::error(place, "", format!("not valid JSON: {}", plain(&error))))
            }
        }
    }

    fn value(&self, text: &str, depth: usize) -> Result<Value, JsonError> {
        Ok(match text.as_bytes().first() {
            Some(b'{') => Value::Map(self.entries(text, depth)?),
            Some(b'[') => {
                let mut list = Vec::new();
                for item in serde_json::from_str::<Vec<&RawValue>>(text)? {
                    list.push(self.node(item, depth + 1)?);
                }
                Value::List(list)
            }
            Some(b'"') => Value::Text(serde_json::from_str(text)?),
            Some(b't' | b'f') => Value::Bool(text == "true"),
            Some(b'n') => Value::Null,
            _ => match text.parse::<i128>() {
                Ok(value) => Value::Integer(value),
                Err(_) => Value::Float(serde_json::from_str(text)?),
            },
        })
    }

    fn entries(&self, text: &str, depth: usize) -> Result<BTreeMap<String, NodeEntry>, JsonError> {
        let entries: Entries<'_> = serde_json::from_str(text)?;
        let mut map = BTreeMap::new();
        for (key, raw) in entries.0 {
            let node = self.node(raw, depth + 1)?;
            let at = raw.get().as_ptr() as usize - self.text.as_ptr() as usize;
            let place = (self.place)(key_start(self.text, at));
            if map.contains_key(&key) {
                let what = format!("duplicate key `{}`", key.escape_debug());
                return Err(Problem::error(place, "", what).hint("keep one of them").into());
            }
            map.insert(key, NodeEntry { place, node });
        }
        Ok(map)
    }
}

enum JsonError {
    Syntax(serde_json::Error),
    Known(Problem),
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax(error)
    }
}

impl From<Problem> for JsonError {
    fn from(problem: Problem) -> Self {
        Self::Known(problem)
    }
}

/// Returns the position of the opening quote of the key before `value`.
fn key_start(text: &str, value: usize) -> usize {
    let bytes = text.as_bytes();
    let last = bytes[..value].iter().rposition(|b| !b.is_ascii_whitespace() && *b != b':');
    let Some(end) = last else {
        return value;
    };
    let mut at = end;
    while at > 0 {
        at -= 1;
        if bytes[at] == b'"' && !is_escaped(&bytes[..at]) {
            return at;
        }
    }
    value
}

/// Returns whether the next character is escaped, by an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    let mut count = 0;
    while before[..before.len() - count].ends_with(b"\\") {
        count += 1;
    }
    count % 2 == 1
}

/// Blanks comments and trailing commas, so that all other bytes keep their positions.
fn strip(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut comma = None;
    let mut at = usize::from(text.starts_with('\u{feff}')) * 3;
    out[..at].fill(b' ');
    while at < out.len() {
        let start = at;
        match out[at] {
            b'"' => {
                at += 1;
                while at < out.len() && out[at] != b'"' {
                    at += if out[at] == b'\\' { 2 } else { 1 };
                }
                comma = None;
            }
            b'/' if out.get(at + 1) == Some(&b'/') => {
                at += out[at..].iter().position(|b| *b == b'\n').unwrap_or(out.len() - at) - 1;
                out[start..=at].fill(b' ');
            }
            b'/' if out.get(at + 1) == Some(&b'*') => {
                at = match out[at + 2..].windows(2).position(|w| w == b"*/") {
                    Some(end) => at + 2 + end + 1,
                    None => out.len() - 1,
                };
                for byte in &mut out[start..=at] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    out[comma] = b' ';
                }
            }
            b if b.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// Ordered pairs of key and raw value, including duplicates so that they can be rejected.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }

        Ok(Self(deserializer.deserialize_map(EntriesVisitor)?))
    }
}
