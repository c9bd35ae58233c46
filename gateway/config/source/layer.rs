//! A source's values, checked separately against the raw types. Every mistake is reported at its
//! place and removed, so that the next one is found too. Figment merges the clean layers.

use figment::error::{Actual, Error, Kind};
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::de::DeserializeOwned;

use super::decode::decode;
use super::node::{Node, Value, kind_of};
use crate::problem::{HINT, MAX_LISTED_PROBLEMS, Problem, Problems, ValuePlace};
use crate::raw::Root;
use crate::raw::leaf::List;
use crate::suggest;

/// The description of a map in messages.
const SECTION: &str = "a section (keys and values)";

pub struct Layer {
    pub root: Node,
    /// Paths of malformed values, which were removed.
    pub damaged: Vec<Vec<String>>,
}

impl Layer {
    pub fn new(root: Node) -> Self {
        Self { root, damaged: Vec::new() }
    }

    /// Returns whether the layer contains this key.
    pub fn names(&self, path: &[&str]) -> bool {
        self.root.get(path).is_some()
    }

    /// Reports and removes values that do not fit the configuration's raw types.
    pub fn check(&mut self, problems: &mut Problems) {
        self.check_as::<Root>("`lockgate schema`", problems);
    }

    /// Checks against another type of file, and returns the remaining value. `reference` names the
    /// documentation of such files.
    pub fn check_as<T: DeserializeOwned>(
        &mut self,
        reference: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        for _ in 0..MAX_LISTED_PROBLEMS {
            let error = match decode(&self.root.to_figment()) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            let path = self.root.written_path(&error.path).unwrap_or_else(|| error.path.clone());
            if !self.lost(&error, &path) {
                problems.push(self.explain(&error, &path, reference));
            }
            if path.is_empty() {
                // A required part of the whole file is missing, so removing a value does not help.
                self.damaged.push(path);
                return None;
            }
            if !self.root.remove(&path) {
                self.root = Node::map(ValuePlace::Nowhere);
            }
            self.damaged.push(path);
        }
        None
    }

    /// Returns whether a value is missing only because its malformed value was reported and
    /// removed.
    fn lost(&self, error: &Error, path: &[String]) -> bool {
        let Kind::MissingField(name) = &error.kind else { return false };
        self.damaged.contains(&[path, &[name.to_string()]].concat())
    }

    fn explain(&self, error: &Error, path: &[String], reference: &str) -> Problem {
        let key = path.join(".");
        let mut place = self.root.place_of(path).unwrap_or(ValuePlace::Nowhere);
        let shown = self.root.get(path).map_or(String::new(), |node| node.shown(path));
        let (what, hint) = match &error.kind {
            Kind::UnknownField(name, known) => {
                place = self.root.key_place(path).unwrap_or(place);
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

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named("configuration")
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.root.to_dict())]))
    }
}

/// All layers, the strongest last.
pub struct Layers(pub Vec<Layer>);

impl Layers {
    /// Merges all layers: sections key by key, while lists and single values are replaced.
    pub fn merge(&self) -> Result<Root, Box<Error>> {
        let mut all = Figment::new();
        for layer in &self.0 {
            all = all.merge(layer);
        }
        Ok(decode(&all.find_value("")?)?)
    }

    /// Returns the strongest value at `path`. Null counts as not set.
    pub fn given<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        let mut given = self.0.iter().rev().filter_map(|layer| layer.root.get(path));
        given.find(|node| !matches!(node.value, Value::Null))
    }

    /// Returns the path of a merged value with the numbers that items of lists have in their
    /// source.
    pub fn written_path(&self, path: Vec<String>) -> Vec<String> {
        let mut layers = self.0.iter().rev();
        layers.find_map(|layer| layer.root.written_path(&path)).unwrap_or(path)
    }

    /// Returns the place to report for `path`, or for the nearest section above that exists.
    pub fn place<S: AsRef<str>>(&self, path: &[S]) -> ValuePlace {
        let mut above = (1..=path.len()).rev();
        let place = above.find_map(|length| {
            self.0.iter().rev().find_map(|layer| layer.root.place_of(&path[..length]))
        });
        place.unwrap_or(ValuePlace::Nowhere)
    }

    /// Returns whether `path`, or a value above or below it, was removed as malformed.
    pub fn damaged<S: AsRef<str>>(&self, path: &[S]) -> bool {
        self.0.iter().any(|layer| layer.damaged.iter().any(|taken| is_above_or_below(taken, path)))
    }
}

/// Returns whether the shorter path is a prefix of the other.
fn is_above_or_below<S: AsRef<str>>(taken: &[String], path: &[S]) -> bool {
    taken.iter().zip(path).all(|(a, b)| a == b.as_ref())
}

/// Returns the names in a list, with their places and whether each comes from a reference.
pub fn listed(list: Option<&Node>) -> Vec<(String, ValuePlace, bool)> {
    let items = items(list).into_iter();
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
