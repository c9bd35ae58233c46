//! A source's values, checked separately against the raw types. Every mistake is reported at its
//! place and removed, so that the next one is found too. Clean layers are merged.

use serde::de::DeserializeOwned;

use super::decode::{DecodeError, Mistake, decode};
use super::node::{Node, Value};
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

    /// Reports and removes values that do not fit the configuration's raw types.
    pub fn check(&mut self, problems: &mut Problems) -> Option<Root> {
        self.check_as("`lockgate schema`", problems)
    }

    /// Checks against another type of file, and returns the remaining value. `reference` names the
    /// documentation of such files.
    pub fn check_as<T: DeserializeOwned>(
        &mut self,
        reference: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        let mut left = None;
        for _ in 0..MAX_LISTED_PROBLEMS {
            let error = match decode(&self.root) {
                Ok(value) => {
                    left = Some(value);
                    break;
                }
                Err(error) => error,
            };
            if !self.lost(&error) {
                problems.push(self.explain(&error, reference));
            }
            if error.path.is_empty() {
                // A required part of the whole file is missing, so removing a value does not help.
                self.damaged.push(error.path);
                break;
            }
            self.root.remove(&error.path);
            self.damaged.push(error.path);
        }
        self.root.sweep();
        left
    }

    /// Returns whether a value is missing only because its malformed value was reported and
    /// removed.
    fn lost(&self, error: &DecodeError) -> bool {
        let Mistake::MissingField(name) = error.mistake else { return false };
        self.damaged.contains(&[error.path.as_slice(), &[name.to_owned()]].concat())
    }

    fn explain(&self, DecodeError { path, mistake }: &DecodeError, reference: &str) -> Problem {
        let key = path.join(".");
        let mut place = self.root.place_of(path).unwrap_or(ValuePlace::Nowhere);
        let shown = self.root.get(path).map_or(String::new(), |node| node.shown(path));
        let (what, hint) = match mistake {
            Mistake::UnknownField(name, known) => {
                place = self.root.key_place(path).unwrap_or(place);
                ("there is no such key".to_string(), suggest::for_key(name, known))
            }
            Mistake::UnknownVariant(word, known) => {
                let near = suggest::for_word(word, known).filter(|_| !shown.is_empty());
                let hint = near.unwrap_or_else(|| "write one of these".to_string());
                (format!("must be {}{shown}", suggest::one_of(known)), hint)
            }
            Mistake::DuplicateField(name) => {
                let hint = "`type` and `transport` are the same key";
                (format!("`{name}` is set twice"), hint.to_string())
            }
            Mistake::Kind(expected) => {
                let actual = self.root.get(path).map_or("nothing", Node::kind);
                let wanted = kind_wanted(expected);
                if self.is_broken_json(path, wanted) {
                    let hint = "write [\"a\", \"b\"] or {\"key\": \"value\"}, including the quotes";
                    let what =
                        format!("is not valid JSON, which is required for {wanted} in a variable");
                    (what, hint.to_string())
                } else {
                    let hint = hint_for_type(path, wanted, actual, reference);
                    (format!("must be {wanted}, not {actual}"), hint)
                }
            }
            Mistake::Message(message) => match message.split_once(HINT) {
                Some((what, hint)) => (format!("{what}{shown}"), hint.to_string()),
                None => return Problem::error(place, key, format!("{message}{shown}")),
            },
            Mistake::MissingField(name) => {
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
        };
        Problem::error(place, key, what).hint(hint)
    }

    /// Returns whether a variable's value begins like JSON but is invalid.
    fn is_broken_json(&self, path: &[String], wanted: &str) -> bool {
        let node = self.root.get(path).filter(|_| wanted == "a list" || wanted == SECTION);
        node.is_some_and(|node| {
            matches!(node.place, ValuePlace::Variable(_))
                && node.as_text().is_some_and(|text| text.trim_start().starts_with(['[', '{']))
        })
    }

    /// Merges stronger values: sections key by key, while lists and single values are replaced.
    pub fn merge(&mut self, stronger: Self) {
        self.root.merge(stronger.root);
        self.damaged.extend(stronger.damaged);
    }

    /// Returns whether `path`, or a value above or below it, was removed as malformed.
    pub fn is_damaged<S: AsRef<str>>(&self, path: &[S]) -> bool {
        self.damaged.iter().any(|taken| is_above_or_below(taken, path))
    }
}

/// Returns whether the shorter path is a prefix of the other.
fn is_above_or_below<S: AsRef<str>>(taken: &[String], path: &[S]) -> bool {
    taken.iter().zip(path).all(|(a, b)| a == b.as_ref())
}

/// Returns a hint for writing the expected type, given the actual value.
fn hint_for_type(path: &[String], wanted: &str, actual: &str, reference: &str) -> String {
    match (wanted, actual) {
        ("text", _) if matches!(path, [.., key] if key == "listen") => {
            "write ADDRESS:PORT, such as 127.0.0.1:3001".to_string()
        }
        ("text", "nothing" | "a list" | "a section") => "write one value".to_string(),
        ("text", _) => "put it in quotes".to_string(),
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
    let List(texts) = decode(node).unwrap_or_default();
    texts.into_iter().map(|text| Node { value: Value::Text(text), ..node.clone() }).collect()
}
