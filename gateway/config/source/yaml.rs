//! YAML with places. Rejects duplicate keys, several documents, deep nesting and alias bombs, and
//! accepts only `true` and `false` as booleans.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Location, Spanned};

use super::node::{MAX_NESTING, Node, STOPPED, Value};
use crate::problem::{Problem, ValuePlace};

const MAX_NODES: usize = 100_000;
const MAX_ALIASES: usize = 1_000;
/// The hint for a value that begins with a special character.
const QUOTES: &str = "put the whole value in quotes, such as '*' or '\"a\" in b': * & ! \" and { \
    have a special meaning at its start";

pub fn read(path: &Arc<PathBuf>, text: &str) -> Result<Node, Problem> {
    match serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options()) {
        Ok(tree) => Ok(build(tree, &|at| place_at(path, at))),
        Err(error) => {
            let what = plain(&error.without_snippet().to_string());
            let at = error.location().unwrap_or(Location::UNKNOWN);
            let hint = if scanned(&what) && needs_quotes(text, at) { QUOTES } else { STOPPED };
            let place = place_at(path, at);
            Err(Problem::error(place, "", format!("not valid YAML: {what}")).hint(hint))
        }
    }
}

fn place_at(path: &Arc<PathBuf>, at: Location) -> ValuePlace {
    ValuePlace::File {
        path: path.clone(),
        line: usize::try_from(at.line()).unwrap_or(0),
        column: usize::try_from(at.column()).unwrap_or(0),
    }
}

/// Returns whether the parser failed on a character rather than on the document's contents.
fn scanned(what: &str) -> bool {
    let words = ["anchor", "tag", "trailing", "while scanning", "while parsing"];
    words.iter().any(|word| what.contains(word))
}

/// Returns whether the value at the parser's position begins with a special character of YAML, as
/// patterns and conditions may.
fn needs_quotes(text: &str, at: Location) -> bool {
    let Some(line) = from_zero(at.line()) else { return false };
    let line = text.lines().nth(line).unwrap_or("");
    let column = from_zero(at.column()).unwrap_or(0);
    let read: Vec<char> = line.chars().take(column.saturating_add(1)).collect();
    // Finds the starts of values outside of quotes.
    let mut begins = None;
    let mut quote = None;
    let mut fresh = true;
    for (at, &c) in read.iter().enumerate() {
        let before_blank = read.get(at + 1).is_none_or(|next| next.is_whitespace());
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c.is_whitespace() => {}
            None if fresh && c == '-' && before_blank => {}
            // A flow section turns out to be a value because more text follows.
            None if c == '}' => (begins, fresh) = (Some('{'), false),
            None if matches!(c, ',' | '[') || c == ':' && before_blank => fresh = true,
            None if fresh => {
                (begins, fresh) = (Some(c), c == '{');
                quote = if matches!(c, '"' | '\'') { Some(c) } else { None };
            }
            None => {}
        }
    }
    matches!(begins, Some('*' | '&' | '!' | '"' | '\'' | '{'))
}

/// Converts a 1-based number to a 0-based one.
fn from_zero(at: u64) -> Option<usize> {
    usize::try_from(at).ok()?.checked_sub(1)
}

fn options() -> serde_saphyr::Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_NESTING;
    budget.flow_nesting_limit = MAX_NESTING;
    budget.max_nodes = MAX_NODES;
    budget.max_events = 4 * MAX_NODES;
    budget.max_aliases = MAX_ALIASES;
    budget.max_anchors = MAX_ALIASES;
    budget.max_documents = 2;
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MAX_NODES;
    aliases.max_replay_stack_depth = 16;
    serde_saphyr::options! {
        budget: Some(budget),
        alias_limits: aliases,
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Returns the parser's message on one line, without the position, which is reported separately.
fn plain(message: &str) -> String {
    let mut line = message.lines().next().unwrap_or("");
    for end in [" at line ", ", set DuplicateKeyPolicy", ";"] {
        if let Some((before, _)) = line.split_once(end) {
            line = before;
        }
    }
    if line.starts_with("budget breached: ") {
        return "it is nested too deeply, or has too many values or aliases".to_string();
    }
    line.to_string()
}

enum Tree {
    Single(Value),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

fn build(tree: Spanned<Tree>, place: &impl Fn(Location) -> ValuePlace) -> Node {
    let at = place(tree.referenced);
    let value = match tree.value {
        Tree::Single(value) => value,
        Tree::List(list) => Value::List(list.into_iter().map(|item| build(item, place)).collect()),
        Tree::Map(entries) => {
            let mut map = BTreeMap::new();
            for (key, value) in entries {
                let node = Node { key: place(key.referenced), ..build(value, place) };
                map.insert(key.value, node);
            }
            Value::Map(map)
        }
    };
    Node::new(value, at)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Bool(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Integer(value.into())))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Integer(value.into())))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Integer(value)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Float(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Text(value.to_string())))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Single(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}
