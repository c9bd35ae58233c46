//! A value with its place, as read from every kind of source. Implements neither `Debug` nor
//! `Display`, so that a value which may be a secret can only be shown through `shown`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use figment::error::Actual;
use figment::value::{Dict, Empty, Num, Tag, Value as Figment};

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
    /// The place of its key; that of the value for an item of a list.
    pub key: ValuePlace,
    /// The original text, if the value came from a `${…}` or `file:` reference.
    pub reference: Option<String>,
    /// Whether the value is malformed, which was reported, so that it is not decoded.
    pub is_damaged: bool,
}

#[derive(Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl Node {
    pub fn new(value: Value, place: ValuePlace) -> Self {
        Self { value, key: place.clone(), place, reference: None, is_damaged: false }
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

    pub fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns a display name of the value's type.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.to_figment().to_actual())
    }

    pub fn get<S: AsRef<str>>(&self, path: &[S]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match &self.value {
            Value::Map(map) => map.get(first.as_ref())?.get(rest),
            Value::List(list) => list.get(first.as_ref().parse::<usize>().ok()?)?.get(rest),
            _ => None,
        }
    }

    pub fn get_mut<S: AsRef<str>>(&mut self, path: &[S]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match &mut self.value {
            Value::Map(map) => map.get_mut(first.as_ref())?.get_mut(rest),
            Value::List(list) => list.get_mut(first.as_ref().parse::<usize>().ok()?)?.get_mut(rest),
            _ => None,
        }
    }

    /// Returns the value at `path`, unless it is null, or malformed like a section above it.
    pub fn find_usable<S: AsRef<str>>(&self, path: &[S]) -> Option<&Self> {
        let node = self.get(path)?;
        let mut above = (1..=path.len()).filter_map(|length| self.get(&path[..length]));
        let is_usable = !matches!(node.value, Value::Null) && above.all(|node| !node.is_damaged);
        is_usable.then_some(node)
    }

    /// Returns whether the value at `path`, or one above or below it, is malformed.
    pub fn has_damage<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let mut above = (0..path.len()).filter_map(|length| self.get(&path[..length]));
        if above.any(|node| node.is_damaged) {
            return true;
        }
        let below = self.get(path).map_or(Vec::new(), Self::all);
        below.iter().any(|(_, node)| node.is_damaged)
    }

    pub fn text_at<S: AsRef<str>>(&self, path: &[S]) -> Option<&str> {
        self.get(path)?.as_text()
    }

    pub fn map_at<S: AsRef<str>>(&self, path: &[S]) -> Option<&BTreeMap<String, Self>> {
        self.get(path)?.as_map()
    }

    /// Returns the place to report: of the value, or of the key for a list or section.
    pub fn shown_place(&self) -> ValuePlace {
        let is_section = matches!(self.value, Value::List(_) | Value::Map(_));
        if is_section { self.key.clone() } else { self.place.clone() }
    }

    /// Returns the place to report for `path`, or for the nearest section above it.
    pub fn nearest_place<S: AsRef<str>>(&self, path: &[S]) -> ValuePlace {
        let mut above = (1..=path.len()).rev();
        let node = above.find_map(|length| self.get(&path[..length]));
        node.map_or(ValuePlace::Nowhere, Self::shown_place)
    }

    /// Puts `node` at `path` and creates the sections above it. Returns false if another value is
    /// in the way.
    pub fn put<S: AsRef<str>>(&mut self, path: &[S], node: Self) -> bool {
        let Value::Map(map) = &mut self.value else { return false };
        let Some((first, rest)) = path.split_first() else { return false };
        let name = first.as_ref().to_string();
        if rest.is_empty() {
            return map.insert(name, node).is_none();
        }
        let section = map.entry(name).or_insert_with(|| Self::map(node.key.clone()));
        section.put(rest, node)
    }

    /// Returns whether the node is a file without content; `{}` is content.
    pub fn is_blank_file(&self) -> bool {
        let is_whole = matches!(self.place, ValuePlace::File { line: 0, .. });
        is_whole && matches!(&self.value, Value::Map(map) if map.is_empty())
    }

    /// Reports keys without a value: an incomplete key of a policy must not match everyone.
    pub fn refuse_keys_without_value(&mut self, hint: &str, problems: &mut Problems) {
        self.visit_mut(&mut Vec::new(), &mut |path, node| {
            let Value::Map(map) = &mut node.value else { return };
            for (name, node) in map.iter_mut() {
                if matches!(node.value, Value::Null) {
                    let key = [path, std::slice::from_ref(name)].concat().join(".");
                    problems.error(node.key.clone(), key, "has no value", hint);
                    node.is_damaged = true;
                }
            }
        });
    }

    /// Returns this node and all below it, with their paths.
    pub fn all(&self) -> Vec<(Vec<String>, &Self)> {
        let mut all = vec![(Vec::new(), self)];
        let mut at = 0;
        while let Some((path, node)) = all.get(at).cloned() {
            let below: Vec<(String, &Self)> = match &node.value {
                Value::List(items) => numbered(items.iter()).collect(),
                Value::Map(map) => {
                    Vec::from_iter(map.iter().map(|(key, node)| (key.clone(), node)))
                }
                _ => Vec::new(),
            };
            all.extend(below.into_iter().map(|(name, node)| ([&path[..], &[name]].concat(), node)));
            at += 1;
        }
        all
    }

    /// Visits this node and all below it, and may change them. Recursion is bounded by
    /// [`MAX_NESTING`].
    pub fn visit_mut(&mut self, path: &mut Vec<String>, see: &mut dyn FnMut(&[String], &mut Self)) {
        see(path, self);
        let below: Vec<(String, &mut Self)> = match &mut self.value {
            Value::List(items) => numbered(items.iter_mut()).collect(),
            Value::Map(map) => {
                Vec::from_iter(map.iter_mut().map(|(key, node)| (key.clone(), node)))
            }
            _ => return,
        };
        for (name, node) in below {
            path.push(name);
            node.visit_mut(path, see);
            path.pop();
        }
    }

    /// Converts to JSON. Null means "not given" and is left out.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self.to_figment()).unwrap_or_default()
    }

    /// Renames the key at the end of `path`, unless the new name exists.
    pub fn rename<S: AsRef<str>>(&mut self, path: &[S], name: &str) {
        let Some((last, parent)) = path.split_last() else { return };
        let Some(Self { value: Value::Map(map), .. }) = self.get_mut(parent) else { return };
        if !map.contains_key(name)
            && let Some(node) = map.remove(last.as_ref())
        {
            map.insert(name.to_string(), node);
        }
    }

    /// Returns the path of a value with the numbers that items of lists have in the source. In the
    /// decoded `path`, malformed items do not count. `None` if there is no list on the way.
    pub fn written_path(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match &self.value {
            Value::Map(map) => {
                let below = map.get(first)?.written_path(rest)?;
                Some([vec![first.clone()], below].concat())
            }
            Value::List(list) => {
                let mut items = numbered(list.iter()).filter(|(_, item)| !item.is_damaged);
                let (name, item) = items.nth(first.parse().ok()?)?;
                let below = item.written_path(rest).unwrap_or_else(|| rest.to_vec());
                Some([vec![name], below].concat())
            }
            _ => None,
        }
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

    /// Converts to figment's type without places. Null means "not given" and is left out, as are
    /// malformed values.
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
                let items = list.iter().filter(|item| !item.is_damaged);
                Figment::Array(tag, items.map(Self::to_figment).collect())
            }
            Value::Map(_) => Figment::Dict(tag, self.to_dict()),
        }
    }

    pub fn to_dict(&self) -> Dict {
        let entries = self.as_map().into_iter().flatten();
        let given =
            entries.filter(|(_, node)| !node.is_damaged && !matches!(node.value, Value::Null));
        given.map(|(key, node)| (key.clone(), node.to_figment())).collect()
    }
}

pub fn kind_of(actual: &Actual) -> &'static str {
    match actual {
        Actual::Bool(_) => "true or false",
        Actual::Signed(value) if *value < 0 => "a negative number",
        Actual::Unsigned(_) | Actual::Signed(_) => "a number",
        Actual::Float(_) => "a number with a fraction",
        Actual::Char(_) | Actual::Str(_) => "text",
        Actual::Unit | Actual::Option => "nothing",
        Actual::Seq => "a list",
        Actual::Map => "a section",
        _ => "this",
    }
}

/// Adds the names of a list's items.
fn numbered<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = (String, T)> {
    items.enumerate().map(|(at, item)| (at.to_string(), item))
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
