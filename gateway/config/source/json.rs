//! JSON with places, and with the comments and trailing commas of editors' files. Rejects duplicate
//! keys and deep nesting. Positions are derived from the addresses of serde_json's raw values in
//! the text.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_text::json;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::node::{Lines, MAX_NESTING, Node, STOPPED, Value};
use crate::problem::{Problem, ValuePlace};

pub fn read(path: &Arc<PathBuf>, text: &str) -> Result<Node, Problem> {
    let text = strip(text);
    let lines = Lines::new(path, &text);
    let reader = Reader { text: &text, place: &|at| lines.place(at) };
    match json::from_str::<&RawValue>(&text) {
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
    let root: &RawValue = json::from_str(text).ok()?;
    reader.node(root, 0).ok()
}

/// Returns serde_json's message without the position, which is reported separately.
fn plain(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split_once(" at line ").map_or(message.as_str(), |(words, _)| words).to_string()
}

struct Reader<'a> {
    text: &'a str,
    place: &'a dyn Fn(usize) -> ValuePlace,
}

impl Reader<'_> {
    fn place_of(&self, raw: &RawValue) -> ValuePlace {
        (self.place)(raw.get().as_ptr() as usize - self.text.as_ptr() as usize)
    }

    fn node(&self, raw: &RawValue, depth: usize) -> Result<Node, Problem> {
        let text = raw.get();
        let place = self.place_of(raw);
        if depth > MAX_NESTING {
            return Err(Problem::error(place, "", format!("nested deeper than {MAX_NESTING}")));
        }
        let value = match text.as_bytes().first() {
            Some(b'{') => Value::Map(self.entries(text, &place, depth)?),
            Some(b'[') => {
                let items: Vec<&RawValue> = parse(text, &place)?;
                let nodes = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Value::Text(parse(text, &place)?),
            Some(b't' | b'f') => Value::Bool(text == "true"),
            Some(b'n') => Value::Null,
            _ => match text.parse::<i128>() {
                Ok(value) => Value::Integer(value),
                Err(_) => Value::Float(parse(text, &place)?),
            },
        };
        Ok(Node::new(value, place))
    }

    fn entries(
        &self,
        text: &str,
        at: &ValuePlace,
        depth: usize,
    ) -> Result<BTreeMap<String, Node>, Problem> {
        let entries: Entries<'_> = parse(text, at)?;
        let mut map = BTreeMap::new();
        for (raw_key, raw) in entries.0 {
            let key: String = parse(raw_key.get(), at)?;
            let place = self.place_of(raw_key);
            let node = Node { key: place.clone(), ..self.node(raw, depth + 1)? };
            if map.contains_key(&key) {
                let what = format!("duplicate key `{}`", key.escape_debug());
                return Err(Problem::error(place, "", what).hint("keep one of them"));
            }
            map.insert(key, node);
        }
        Ok(map)
    }
}

/// Parses a part of a text at this place.
fn parse<'t, T: Deserialize<'t>>(text: &'t str, place: &ValuePlace) -> Result<T, Problem> {
    json::from_str(text).map_err(|error| {
        Problem::error(place.clone(), "", format!("not valid JSON: {}", plain(&error)))
    })
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

/// Ordered pairs of raw key and value, including duplicates so that they can be rejected.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

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
