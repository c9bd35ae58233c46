//! A value with its place, as read from every kind of source. Implements neither `Debug` nor
//! `Display`, so that a value which may be a secret can only be shown through `shown`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use figment::value::{Dict, Empty, Num, Tag, Value as Figment};

use crate::problem::ValuePlace;

/// Maximum nesting of a file.
pub const MAX_NESTING: usize = 32;
/// The hint for syntax errors.
pub const STOPPED: &str = "the mistake is here or just before";

/// Maximum length of a value quoted in a message.
const MAX_QUOTED_CHARS: usize = 60;

/// Keys with values that are never quoted in a message; `*` matches any name.
const SENSITIVE: &[&[&str]] = &[
    &["admin", "scrape_token"],
    &["admin", "sign_in", "client_secret"],
    &["approvals", "webhook"],
    &["audit", "key"],
    &["audit", "webhook"],
    &["auth", "key"],
    &["builtin", "database", "connections"],
    &["builtin", "shell", "environment"],
    &["builtin", "web", "proxy"],
    &["catalogue", "*", "url"],
    &["egress", "proxy", "password"],
    &["egress", "proxy", "url"],
    &["egress", "proxy", "user"],
    &["identity", "keys"],
    &["old_secrets"],
    &["redis", "url"],
    &["secret"],
    &["servers", "*", "auth", "client_key"],
    &["servers", "*", "auth", "client_secret"],
    &["servers", "*", "auth", "provider", "client_secret"],
    &["servers", "*", "command"],
    &["servers", "*", "args"],
    &["servers", "*", "env"],
    &["servers", "*", "headers"],
    &["servers", "*", "url"],
    &["store", "keys"],
    &["store", "url"],
    &["telemetry", "headers"],
    &["telemetry", "otlp"],
    &["telemetry", "otlp_logs"],
    &["tool_search", "embeddings", "headers"],
    &["tool_search", "embeddings", "url"],
];

#[derive(Clone)]
pub struct Node {
    pub value: Value,
    pub place: ValuePlace,
    /// The original text, if the value came from a `${…}` or `file:` reference.
    pub reference: Option<String>,
}

#[derive(Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, NodeEntry>),
}

#[derive(Clone)]
pub struct NodeEntry {
    /// The place of the key.
    pub place: ValuePlace,
    pub node: Node,
}

impl Node {
    pub fn new(value: Value, place: ValuePlace) -> Self {
        Self { value, place, reference: None }
    }

    pub fn text(text: impl Into<String>, place: ValuePlace) -> Self {
        Self::new(Value::Text(text.into()), place)
    }

    pub fn map(place: ValuePlace) -> Self {
        Self::new(Value::Map(BTreeMap::new()), place)
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&BTreeMap<String, NodeEntry>> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns a display name of the value's type.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) => "a number",
            Value::Float(_) => "a number with a fraction",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a section",
        }
    }

    pub fn get<S: AsRef<str>>(&self, path: &[S]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match &self.value {
            Value::Map(map) => map.get(first.as_ref())?.node.get(rest),
            Value::List(list) => list.get(first.as_ref().parse::<usize>().ok()?)?.get(rest),
            _ => None,
        }
    }

    pub fn text_at<S: AsRef<str>>(&self, path: &[S]) -> Option<&str> {
        self.get(path)?.as_text()
    }

    pub fn map_at<S: AsRef<str>>(&self, path: &[S]) -> Option<&BTreeMap<String, NodeEntry>> {
        self.get(path)?.as_map()
    }

    /// Returns the place to report for `path`: of the value, or of the key for a list or section.
    pub fn place_of<S: AsRef<str>>(&self, path: &[S]) -> Option<ValuePlace> {
        let node = self.get(path)?;
        let key = match node.value {
            Value::List(_) | Value::Map(_) => self.key_place(path),
            _ => None,
        };
        key.or_else(|| Some(node.place.clone()))
    }

    /// Returns the place to report for `path`, or for the nearest section above it.
    pub fn nearest_place<S: AsRef<str>>(&self, path: &[S]) -> ValuePlace {
        for length in (1..=path.len()).rev() {
            if let Some(place) = self.place_of(&path[..length]) {
                return place;
            }
        }
        ValuePlace::Nowhere
    }

    pub fn key_place<S: AsRef<str>>(&self, path: &[S]) -> Option<ValuePlace> {
        let (last, parent) = path.split_last()?;
        Some(self.map_at(parent)?.get(last.as_ref())?.place.clone())
    }

    /// Puts `node` at `path` and creates the sections above it. Returns false if another value is
    /// in the way.
    pub fn put<S: AsRef<str>>(&mut self, path: &[S], node: Self) -> bool {
        let Value::Map(map) = &mut self.value else {
            return false;
        };
        match path {
            [] => false,
            [last] => {
                let place = node.place.clone();
                map.insert(last.as_ref().to_string(), NodeEntry { place, node }).is_none()
            }
            [first, rest @ ..] => {
                let section = map.entry(first.as_ref().to_string()).or_insert_with(|| NodeEntry {
                    place: node.place.clone(),
                    node: Self::map(node.place.clone()),
                });
                section.node.put(rest, node)
            }
        }
    }

    /// Returns whether the node is a file without content; `{}` is content.
    pub fn is_blank_file(&self) -> bool {
        let is_whole = matches!(self.place, ValuePlace::File { line: 0, .. });
        is_whole && matches!(&self.value, Value::Map(map) if map.is_empty())
    }

    /// Returns keys without a value, with their paths: an incomplete key of a policy must not match
    /// everyone.
    pub fn find_keys_without_value(&self) -> Vec<(ValuePlace, Vec<String>)> {
        let mut found = Vec::new();
        self.collect_keys_without_value(&mut Vec::new(), &mut found);
        found
    }

    fn collect_keys_without_value(
        &self,
        path: &mut Vec<String>,
        found: &mut Vec<(ValuePlace, Vec<String>)>,
    ) {
        match &self.value {
            Value::Map(map) => {
                for (key, entry) in map {
                    path.push(key.clone());
                    match entry.node.value {
                        Value::Null => found.push((entry.place.clone(), path.clone())),
                        _ => entry.node.collect_keys_without_value(path, found),
                    }
                    path.pop();
                }
            }
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    path.push(at.to_string());
                    item.collect_keys_without_value(path, found);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    /// Renames the key at the end of `path`, unless the new name exists.
    pub fn rename<S: AsRef<str>>(&mut self, path: &[S], name: &str) {
        match (path, &mut self.value) {
            ([last], Value::Map(map)) if !map.contains_key(name) => {
                if let Some(entry) = map.remove(last.as_ref()) {
                    map.insert(name.to_string(), entry);
                }
            }
            ([first, rest @ ..], Value::Map(map)) if !rest.is_empty() => {
                if let Some(entry) = map.get_mut(first.as_ref()) {
                    entry.node.rename(rest, name);
                }
            }
            _ => {}
        }
    }

    pub fn remove<S: AsRef<str>>(&mut self, path: &[S]) -> Option<Self> {
        match (path, &mut self.value) {
            ([last], Value::Map(map)) => Some(map.remove(last.as_ref())?.node),
            ([last], Value::List(list)) => {
                let at = last.as_ref().parse::<usize>().ok()?;
                if at >= list.len() {
                    return None;
                }
                Some(list.remove(at))
            }
            ([first, rest @ ..], Value::Map(map)) => map.get_mut(first.as_ref())?.node.remove(rest),
            ([first, rest @ ..], Value::List(list)) => {
                list.get_mut(first.as_ref().parse::<usize>().ok()?)?.remove(rest)
            }
            _ => None,
        }
    }

    /// Returns `` (it is `x`) `` if the value may be shown: short, not a secret and not from a
    /// reference.
    pub fn shown<S: AsRef<str>>(&self, path: &[S]) -> String {
        let text = match &self.value {
            _ if self.reference.is_some() || is_sensitive(path) => return String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) if text.chars().count() <= MAX_QUOTED_CHARS => text.clone(),
            _ => return String::new(),
        };
        format!(" (it is `{}`)", text.escape_debug())
    }

    /// Converts to figment's type without places. Null means "not given" and is left out.
    pub fn to_figment(&self) -> Figment {
        let tag = Tag::Default;
        match &self.value {
            Value::Null => Figment::Empty(tag, Empty::None),
            Value::Bool(value) => Figment::Bool(tag, *value),
            Value::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => Figment::Num(tag, Num::U64(value)),
                (_, Ok(value)) => Figment::Num(tag, Num::I64(value)),
                _ => Figment::Num(tag, Num::I128(*value)),
            },
            Value::Float(value) => Figment::Num(tag, Num::F64(*value)),
            Value::Text(text) => Figment::String(tag, text.clone()),
            Value::List(list) => {
                let items: Vec<_> = list.iter().map(|item| item.to_figment()).collect();
                Figment::Array(tag, items)
            }
            Value::Map(_) => Figment::Dict(tag, self.to_dict()),
        }
    }

    pub fn to_dict(&self) -> Dict {
        let Some(map) = self.as_map() else {
            return Dict::new();
        };
        let mut dict = Dict::new();
        for (key, entry) in map {
            if !matches!(entry.node.value, Value::Null) {
                dict.insert(key.clone(), entry.node.to_figment());
            }
        }
        dict
    }
}

/// Returns whether the value of this key is never quoted.
pub fn is_sensitive<S: AsRef<str>>(path: &[S]) -> bool {
    is_at_or_below(path, SENSITIVE)
}

/// Returns whether `path` begins with any of these paths.
pub fn is_at_or_below<S: AsRef<str>>(path: &[S], any: &[&[&str]]) -> bool {
    any.iter().any(|keys| starts_with(path, keys))
}

/// Returns whether `path` is one of these paths.
pub fn is_one_of<S: AsRef<str>>(path: &[S], any: &[&[&str]]) -> bool {
    any.iter().any(|keys| keys.len() == path.len() && starts_with(path, keys))
}

/// Borrows a path, for pattern matching.
pub fn as_words(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Returns whether `path` begins with `keys`, where `*` matches any name.
pub fn starts_with<S: AsRef<str>>(path: &[S], keys: &[&str]) -> bool {
    path.len() >= keys.len()
        && path.iter().zip(keys).all(|(have, want)| *want == "*" || have.as_ref() == *want)
}

// Places from byte offsets. Columns count characters.

pub struct Lines<'a> {
    path: &'a Arc<PathBuf>,
    text: &'a str,
    /// Offset of each line's first byte.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(path: &'a Arc<PathBuf>, text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Self { path, text, starts }
    }

    pub fn place(&self, offset: usize) -> ValuePlace {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let before = self.text.get(start..offset).unwrap_or("");
        self.at(line, before.chars().count() + 1)
    }

    pub fn at(&self, line: usize, column: usize) -> ValuePlace {
        ValuePlace::File { path: self.path.clone(), line, column }
    }
}
