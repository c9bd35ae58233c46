//! A value with its place, as read from every kind of source. Implements neither `Debug` nor
//! `Display`, so that a value which may be a secret can only be shown through `shown`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Number, Value as Json};

use super::forms::{Form, has_form};
use crate::problem::{Problems, ValuePlace};

/// Maximum nesting of a file.
pub const MAX_NESTING: usize = 32;
/// The hint for syntax errors.
pub const STOPPED: &str = "the mistake is here or just before";

/// Maximum length of a value quoted in a message.
const MAX_QUOTED_CHARS: usize = 60;

#[derive(Clone)]
pub struct Node {
    pub value: Value,
    pub place: ValuePlace,
    /// The original text, if the value came from a `${…}` or `file:` reference.
    pub reference: Option<String>,
}

#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    /// A malformed value that was reported.
    Removed,
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

/// Compares the values, regardless of their places.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for NodeEntry {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
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

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null | Value::Removed)
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
            Value::Null | Value::Removed => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(..0) => "a negative number",
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
        let mut above = (1..=path.len()).rev();
        let place = above.find_map(|length| self.place_of(&path[..length]));
        place.unwrap_or(ValuePlace::Nowhere)
    }

    pub fn key_place<S: AsRef<str>>(&self, path: &[S]) -> Option<ValuePlace> {
        let (last, parent) = path.split_last()?;
        Some(self.map_at(parent)?.get(last.as_ref())?.place.clone())
    }

    /// Puts `node` at `path` and creates the sections above it. Returns false if another value is
    /// in the way.
    pub fn put<S: AsRef<str>>(&mut self, path: &[S], node: Self) -> bool {
        self.put_entry(path, NodeEntry { place: node.place.clone(), node })
    }

    pub fn put_entry<S: AsRef<str>>(&mut self, path: &[S], entry: NodeEntry) -> bool {
        let Value::Map(map) = &mut self.value else { return false };
        let Some((first, rest)) = path.split_first() else { return false };
        let name = first.as_ref().to_string();
        if rest.is_empty() {
            return map.insert(name, entry).is_none();
        }
        let place = entry.place.clone();
        let section =
            map.entry(name).or_insert_with(|| NodeEntry { node: Self::map(place.clone()), place });
        section.node.put_entry(rest, entry)
    }

    /// Returns whether the node is a file without content; `{}` is content.
    pub fn is_blank_file(&self) -> bool {
        let is_whole = matches!(self.place, ValuePlace::File { line: 0, .. });
        is_whole && matches!(&self.value, Value::Map(map) if map.is_empty())
    }

    /// Reports keys without a value, and returns their paths: an incomplete key of a policy must
    /// not match everyone.
    pub fn refuse_keys_without_value(
        &self,
        hint: &str,
        problems: &mut Problems,
    ) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| {
            if node.is_null()
                && let Some(place) = self.key_place(path)
            {
                problems.error(place, path.join("."), "has no value", hint);
                found.push(path.to_vec());
            }
        });
        found
    }

    /// Visits a copy of this node and of all below it.
    pub fn visit(&self, see: &mut dyn FnMut(&[String], &Self)) {
        self.clone().visit_mut(&mut Vec::new(), &mut |path, node| see(path, node));
    }

    /// Visits this node and all below it, and may change them. Recursion is bounded by
    /// [`MAX_NESTING`].
    pub fn visit_mut(&mut self, path: &mut Vec<String>, see: &mut dyn FnMut(&[String], &mut Self)) {
        see(path, self);
        let below: Vec<(String, &mut Self)> = match &mut self.value {
            Value::List(items) => {
                let items = items.iter_mut().enumerate();
                items.map(|(at, item)| (at.to_string(), item)).collect()
            }
            Value::Map(map) => {
                map.iter_mut().map(|(key, entry)| (key.clone(), &mut entry.node)).collect()
            }
            _ => return,
        };
        for (name, node) in below {
            path.push(name);
            node.visit_mut(path, see);
            path.pop();
        }
    }

    /// Merges stronger values: sections key by key, while lists and single values are replaced.
    /// Null means "not given".
    pub fn merge(&mut self, stronger: Self) {
        if stronger.is_null() {
            return;
        }
        match (&mut self.value, stronger.value) {
            (Value::Map(map), Value::Map(stronger)) => {
                for (key, entry) in stronger {
                    let Some(known) = map.get_mut(&key) else {
                        map.insert(key, entry);
                        continue;
                    };
                    if !entry.node.is_null() {
                        known.place = entry.place;
                        known.node.merge(entry.node);
                    }
                }
            }
            (_, value) => *self = Self { value, ..stronger },
        }
    }

    /// Converts to JSON. Null means "not given" and is left out.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null | Value::Removed => Json::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => Number::from_i128(*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(list) => list.iter().map(Self::to_json).collect(),
            Value::Map(map) => {
                let given = map.iter().filter(|(_, entry)| !entry.node.is_null());
                given.map(|(key, entry)| (key.clone(), entry.node.to_json())).collect()
            }
        }
    }

    fn get_mut<S: AsRef<str>>(&mut self, path: &[S]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match &mut self.value {
            Value::Map(map) => map.get_mut(first.as_ref())?.node.get_mut(rest),
            Value::List(list) => list.get_mut(first.as_ref().parse::<usize>().ok()?)?.get_mut(rest),
            _ => None,
        }
    }

    /// Renames the key at the end of `path`, unless the new name exists.
    pub fn rename<S: AsRef<str>>(&mut self, path: &[S], name: &str) {
        if let Some((last, parent)) = path.split_last()
            && let Some(Self { value: Value::Map(map), .. }) = self.get_mut(parent)
            && !map.contains_key(name)
            && let Some(entry) = map.remove(last.as_ref())
        {
            map.insert(name.to_string(), entry);
        }
    }

    /// Removes a value. Later items of a list keep their numbers until [`Self::sweep`].
    pub fn remove<S: AsRef<str>>(&mut self, path: &[S]) {
        if let Some(node) = self.get_mut(path) {
            node.value = Value::Removed;
        }
    }

    /// Drops removed values.
    pub fn sweep(&mut self) {
        self.visit_mut(&mut Vec::new(), &mut |_, node| match &mut node.value {
            Value::List(items) => items.retain(|item| item.value != Value::Removed),
            Value::Map(map) => map.retain(|_, entry| entry.node.value != Value::Removed),
            _ => {}
        });
    }

    /// Returns `` (it is `x`) `` if the value may be shown: short, not a secret and not from a
    /// reference.
    pub fn shown<S: AsRef<str>>(&self, path: &[S]) -> String {
        let text = match &self.value {
            _ if self.reference.is_some() || has_form(path, Form::Secret) => return String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) if text.chars().count() <= MAX_QUOTED_CHARS => text.clone(),
            _ => return String::new(),
        };
        format!(" (it is `{}`)", text.escape_debug())
    }
}

/// Borrows a path, for pattern matching.
pub fn as_words(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
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
