//! A source's values, checked separately against the raw types. Every mistake is reported at its
//! place and the value left out, so that the next one is found too. Figment merges the layers.

use figment::Figment;
use figment::error::{Actual, Error, Kind};
use figment::providers::Serialized;
use serde::de::DeserializeOwned;

use super::decode::decode;
use super::node::{Node, Value, kind_of};
use crate::problem::{HINT, MAX_LISTED_PROBLEMS, Problem, Problems, ValuePlace};
use crate::raw::Root;
use crate::raw::leaf::List;
use crate::suggest;

/// The description of a map in messages.
const SECTION: &str = "a section (keys and values)";

/// Reports values that do not fit the configuration's raw types, and marks them as malformed.
pub fn check(layer: &mut Node, problems: &mut Problems) {
    check_as::<Root>(layer, "`lockgate schema`", problems);
}

/// Checks against another type of file, and returns the value without the malformed parts.
/// `reference` names the documentation of such files.
pub fn check_as<T: DeserializeOwned>(
    layer: &mut Node,
    reference: &str,
    problems: &mut Problems,
) -> Option<T> {
    for _ in 0..MAX_LISTED_PROBLEMS {
        let error = match decode(&layer.to_figment()) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let path = layer.written_path(&error.path).unwrap_or_else(|| error.path.clone());
        if !is_lost(layer, &error, &path) {
            problems.push(explain(layer, &error, &path, reference));
        }
        match layer.get_mut(&path) {
            Some(node) => node.is_damaged = true,
            None => *layer = unreadable(),
        }
        if path.is_empty() {
            // A required part of the whole file is missing.
            return None;
        }
    }
    None
}

/// Returns a layer for an unreadable file, which suppresses messages about missing keys.
pub fn unreadable() -> Node {
    Node { is_damaged: true, ..Node::map(ValuePlace::Nowhere) }
}

/// Returns whether a value is missing only because it is malformed, which was reported.
fn is_lost(layer: &Node, error: &Error, path: &[String]) -> bool {
    let Kind::MissingField(name) = &error.kind else { return false };
    layer.get(&[path, &[name.to_string()]].concat()).is_some_and(|node| node.is_damaged)
}

fn explain(layer: &Node, error: &Error, path: &[String], reference: &str) -> Problem {
    let key = path.join(".");
    let node = layer.get(path);
    let mut place = node.map_or(ValuePlace::Nowhere, Node::shown_place);
    let shown = node.map_or(String::new(), |node| node.shown(path));
    let (what, hint) = match &error.kind {
        Kind::UnknownField(name, known) => {
            place = node.map_or(place, |node| node.key.clone());
            ("there is no such key".to_string(), suggest::for_key(name, known))
        }
        Kind::UnknownVariant(word, known) => {
            let near = suggest::for_word(word, known).filter(|_| !shown.is_empty());
            let hint = near.unwrap_or_else(|| "write one of these".to_string());
            (format!("must be {}{shown}", suggest::one_of(known)), hint)
        }
        Kind::DuplicateField(name) => {
            let hint = "`type` and `transport` are the same key";
            (format!("`{name}` is set twice"), hint.to_string())
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            let wanted = kind_wanted(expected);
            if is_broken_json(&place, wanted, actual) {
                let hint = "write [\"a\", \"b\"] or {\"key\": \"value\"}, including the quotes";
                let what =
                    format!("is not valid JSON, which is required for {wanted} in a variable");
                (what, hint.to_string())
            } else {
                let hint = hint_for_type(path, wanted, actual, reference);
                (format!("must be {wanted}, not {}", kind_of(actual)), hint)
            }
        }
        Kind::Message(message) => match message.split_once(HINT) {
            Some((what, hint)) => (format!("{what}{shown}"), hint.to_string()),
            None => return Problem::error(place, key, format!("{message}{shown}")),
        },
        Kind::MissingField(name) => {
            let hint = if path.is_empty() {
                format!(
                    "write `{name}: []` for an empty file: a file without it may have lost its \
                            content"
                )
            } else {
                format!("it is required; {reference} lists all keys")
            };
            (format!("lacks `{name}`"), hint)
        }
        _ => return Problem::error(place, key, "does not fit here"),
    };
    Problem::error(place, key, what).hint(hint)
}

/// Returns whether a variable's value begins like JSON but is invalid.
fn is_broken_json(place: &ValuePlace, wanted: &str, actual: &Actual) -> bool {
    let Actual::Str(text) = actual else { return false };
    matches!(place, ValuePlace::Variable(_))
        && (wanted == "a list" || wanted == SECTION)
        && text.trim_start().starts_with(['[', '{'])
}

/// Returns a hint for writing the expected type, given the actual value.
fn hint_for_type(path: &[String], wanted: &str, actual: &Actual, reference: &str) -> String {
    match (wanted, actual) {
        ("text", _) if matches!(path, [.., key] if key == "listen") => {
            "write ADDRESS:PORT, such as 127.0.0.1:3001".to_string()
        }
        ("text", Actual::Unsigned(_) | Actual::Signed(_) | Actual::Bool(_) | Actual::Float(_)) => {
            "put it in quotes".to_string()
        }
        ("text", _) => "write one value".to_string(),
        ("a list", _) => "write [a, b]".to_string(),
        (SECTION, _) => "put its keys under it".to_string(),
        _ => format!("{reference} lists the valid values"),
    }
}

fn kind_wanted(expected: &str) -> &str {
    match expected {
        "a map" => SECTION,
        "a sequence" => "a list",
        _ if expected.starts_with("struct ") => SECTION,
        _ if expected.contains("enum ") => "a word",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" | "a JSON number" => "a number",
        "bool" | "boolean" | "a boolean" => "true or false",
        "a string" | "string" => "text",
        _ => expected,
    }
}

/// All layers, the strongest last.
pub struct Layers(pub Vec<Node>);

impl Layers {
    /// Merges all layers: sections key by key, while lists and single values are replaced.
    pub fn merge(&self) -> Result<Root, Box<Error>> {
        let mut all = Figment::new();
        for layer in &self.0 {
            all = all.merge(Serialized::defaults(layer.to_dict()));
        }
        Ok(decode(&all.find_value("")?)?)
    }

    /// Returns the strongest value at `path`.
    pub fn given<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        self.0.iter().rev().find_map(|layer| layer.find_usable(path))
    }

    /// Returns the path of a merged value with the numbers that items of lists have in their
    /// source.
    pub fn written_path(&self, path: Vec<String>) -> Vec<String> {
        let mut layers = self.0.iter().rev();
        layers.find_map(|layer| layer.written_path(&path)).unwrap_or(path)
    }

    /// Returns the place to report for `path`, or for the nearest section above that exists.
    pub fn place<S: AsRef<str>>(&self, path: &[S]) -> ValuePlace {
        let mut above = (1..=path.len()).rev();
        let given = above.find_map(|length| self.given(&path[..length]));
        given.map_or(ValuePlace::Nowhere, Node::shown_place)
    }

    /// Returns whether the value at `path`, or one above or below it, is malformed.
    pub fn has_damage<S: AsRef<str>>(&self, path: &[S]) -> bool {
        self.0.iter().any(|layer| layer.has_damage(path))
    }
}

/// Returns the names in a list, with their places and whether each comes from a reference.
pub fn listed(list: Option<&Node>) -> Vec<(String, ValuePlace, bool)> {
    let items = items(list).into_iter().filter(|item| !item.is_damaged);
    items
        .filter_map(|item| Some((item.as_text()?.to_owned(), item.place, item.reference.is_some())))
        .collect()
}

/// Returns the items of a list, which may also be written as text.
pub fn items(node: Option<&Node>) -> Vec<Node> {
    let Some(node) = node else { return Vec::new() };
    if let Value::List(list) = &node.value {
        return list.clone();
    }
    let List(texts) = decode(&node.to_figment()).unwrap_or_default();
    texts.into_iter().map(|text| Node { value: Value::Text(text), ..node.clone() }).collect()
}
