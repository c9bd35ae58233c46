//! Input kinds of an argument, the validation of its text, and the conversion to a value.

use std::fmt::Display;
use std::slice::from_ref;

use lockgate_text::json;
use regex::RegexBuilder;
use serde_json::{Number, Value};

use crate::console::render::{plain_text, text_of};

/// Maximum size of a compiled pattern, in bytes. Matching takes time proportional to this size
/// times the length of the text, and patterns come from servers: larger patterns and longer texts
/// are left to browsers and servers.
const MAX_PATTERN: usize = 16 << 10;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_TEXT: usize = 1 << 10;
/// Maximum length of a text that is matched, in bytes.
const MAX_MATCHED: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldKind<'a> {
    /// A single-line input of this HTML type.
    Line(&'static str),
    Text,
    Number,
    /// A choice between values; a boolean has `true` and `false`.
    Choice(&'a [Value]),
    /// An object, with a field for each member.
    Group,
    /// A list, with a field for each row.
    List,
    /// Any other value, as JSON.
    Json,
}

static BOOLEANS: [Value; 2] = [Value::Bool(true), Value::Bool(false)];

impl<'a> FieldKind<'a> {
    pub(super) fn choices(self) -> &'a [Value] {
        if let Self::Choice(values) = self { values } else { &[] }
    }
}

/// The least and the most of a number, or of a count.
type Range<T> = (Option<T>, Option<T>);

/// Returns a description of the rules of a schema; empty if there are none.
pub(super) fn hint_of(schema: &Value) -> String {
    let mut hints = Vec::new();
    add_range(&mut hints, (number(schema, "minimum"), number(schema, "maximum")), "");
    for (name, words, _) in &BOUNDS[2..] {
        if let Some(bound) = number(schema, name) {
            hints.push(format!("{words} {bound}"));
        }
    }
    add_range(&mut hints, range_of(schema, "Length"), " characters");
    add_range(&mut hints, range_of(schema, "Items"), " items");
    let pattern = text_of(schema, "pattern");
    if !pattern.is_empty() {
        hints.push(format!("pattern {pattern}"));
    }
    hints.join(", ")
}

/// Checks the number of items of a list, or of characters of a text.
pub(super) fn check_range(range: Range<usize>, count: usize, unit: &str) -> Result<(), String> {
    match range {
        (Some(least), _) if count < least => Err(say_limit("At least", least, unit, "required")),
        (_, Some(most)) if count > most => Err(say_limit("At most", most, unit, "allowed")),
        _ => Ok(()),
    }
}

/// A bound of a number: the name, the words, and whether a number is outside.
type Bound = (&'static str, &'static str, fn(&f64, &f64) -> bool);

const BOUNDS: [Bound; 4] = [
    ("minimum", "at least", f64::lt),
    ("maximum", "at most", f64::gt),
    ("exclusiveMinimum", "more than", f64::le),
    ("exclusiveMaximum", "less than", f64::ge),
];

fn check_number(schema: &Value, given: f64) -> Result<(), String> {
    for (name, words, is_outside) in BOUNDS {
        if let Some(bound) = number(schema, name)
            && is_outside(&given, &bound)
        {
            return Err(format!("This must be {words} {bound}."));
        }
    }
    let is_whole = type_of(schema) != "integer" || given.fract() == 0.0;
    if is_whole { Ok(()) } else { Err("This must be a whole number.".into()) }
}

fn check_text(schema: &Value, given: &str) -> Result<(), String> {
    check_range(range_of(schema, "Length"), given.chars().count(), " characters")?;
    let pattern = text_of(schema, "pattern");
    let is_matched = given.len() <= MAX_MATCHED && pattern.len() <= MAX_PATTERN_TEXT;
    if pattern.is_empty() || !is_matched {
        return Ok(());
    }
    // Schema patterns are ECMAScript. Patterns that fail to compile here are left to browsers
    // and servers.
    match RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build() {
        Ok(compiled) if !compiled.is_match(given) => {
            Err(format!("This must match the pattern {pattern}."))
        }
        _ => Ok(()),
    }
}

fn add_range<T: Display>(hints: &mut Vec<String>, range: Range<T>, unit: &str) {
    match range {
        (Some(least), Some(most)) => {
            hints.push(format!("{least} to {}", write_count(most, unit)));
        }
        (Some(least), None) => hints.push(format!("at least {}", write_count(least, unit))),
        (None, Some(most)) => hints.push(format!("at most {}", write_count(most, unit))),
        (None, None) => {}
    }
}

/// Returns a number with its unit, which is singular after 1.
fn write_count(number: impl Display, unit: &str) -> String {
    let number = number.to_string();
    let unit = if number == "1" { unit.trim_end_matches('s') } else { unit };
    format!("{number}{unit}")
}

/// Returns a sentence about a limit, as `At least 2 items are required.`
fn say_limit(start: &str, limit: usize, unit: &str, end: &str) -> String {
    let verb = if limit == 1 { "is" } else { "are" };
    format!("{start} {} {verb} {end}.", write_count(limit, unit))
}

/// Returns the value of an input, or `None` if it is empty.
pub(super) fn read(
    kind: FieldKind<'_>,
    schema: &Value,
    is_required: bool,
    text: &str,
) -> Result<Option<Value>, String> {
    let value = match kind {
        _ if text.trim().is_empty() && is_required => return Err("This is required.".into()),
        _ if text.trim().is_empty() => return Ok(None),
        FieldKind::Number => {
            let number: Number =
                json::from_str(text.trim()).map_err(|_| "This must be a number.")?;
            check_number(schema, number.as_f64().unwrap_or(f64::NAN))?;
            number.into()
        }
        FieldKind::Choice(values) => {
            let chosen = values.iter().find(|one| plain_text(one) == text);
            chosen.ok_or("This must be one of the choices.")?.clone()
        }
        FieldKind::Json | FieldKind::Group | FieldKind::List => {
            json::from_str(text).map_err(|error| format!("This must be JSON: {error}."))?
        }
        FieldKind::Line("datetime-local") => write_moment(text).into(),
        FieldKind::Line(_) | FieldKind::Text => {
            check_text(schema, text)?;
            text.into()
        }
    };
    Ok(Some(value))
}

/// Completes a time as sent by browsers, such as `2027-01-31T08:00`. Without scripts, visitors may
/// enter any RFC 3339 text.
fn write_moment(text: &str) -> String {
    let text = text.trim();
    match text.len() {
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text.to_owned(),
    }
}

// Reads the parts of a JSON Schema that forms use: internal references, kinds, rules and defaults.

/// Maximum length of a chain of references.
const MAX_REFERENCES: usize = 8;
/// Longer texts get a multi-line input.
const LONG_TEXT: usize = 200;

/// Follows references within the schema and the only alternative that is not null.
pub(super) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let next = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => reference.strip_prefix('#').and_then(|at| root.pointer(at)),
            None => find_alternative(schema),
        };
        match next {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// Returns the only alternative that is not null. If there are several, the value is entered as
/// JSON.
fn find_alternative(schema: &Value) -> Option<&Value> {
    let all = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut others = all.iter().filter(|one| text_of(one, "type") != "null");
    let first = others.next()?;
    if others.next().is_some() { None } else { Some(first) }
}

/// Returns the description of an argument, or that of the schema it refers to.
pub(super) fn describe<'a>(schema: &'a Value, resolved: &'a Value) -> &'a str {
    let own = text_of(schema, "description");
    if own.is_empty() { text_of(resolved, "description") } else { own }
}

/// Returns the type of a schema, ignoring `null`.
fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("")
        }
        _ if schema.get("properties").is_some() => "object",
        _ => "",
    }
}

/// Returns the input kind of an argument. `may_nest` gives objects and lists their own fields.
pub(super) fn kind_of(schema: &Value, may_nest: bool) -> FieldKind<'_> {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return FieldKind::Choice(values);
    }
    if let Some(value) = schema.get("const") {
        return FieldKind::Choice(from_ref(value));
    }
    match type_of(schema) {
        "string" => kind_of_text(schema),
        "integer" | "number" => FieldKind::Number,
        "boolean" => FieldKind::Choice(&BOOLEANS),
        "object" if may_nest => FieldKind::Group,
        "array" if may_nest && schema.get("items").is_some_and(Value::is_object) => FieldKind::List,
        _ => FieldKind::Json,
    }
}

fn kind_of_text(schema: &Value) -> FieldKind<'static> {
    match text_of(schema, "format") {
        "date" => FieldKind::Line("date"),
        "date-time" => FieldKind::Line("datetime-local"),
        "time" => FieldKind::Line("time"),
        "email" => FieldKind::Line("email"),
        "uri" | "url" => FieldKind::Line("url"),
        _ if !text_of(schema, "pattern").is_empty() => FieldKind::Line("text"),
        _ => match range_of(schema, "Length").1 {
            Some(most) if most <= LONG_TEXT => FieldKind::Line("text"),
            _ => FieldKind::Text,
        },
    }
}

/// Returns the limits `min…` and `max…` of a count.
pub(super) fn range_of(schema: &Value, suffix: &str) -> Range<usize> {
    let [least, most] = ["min", "max"].map(|start| {
        let limit = schema.get(format!("{start}{suffix}"))?.as_u64()?;
        usize::try_from(limit).ok()
    });
    (least, most)
}

fn number(schema: &Value, name: &str) -> Option<f64> {
    schema.get(name)?.as_f64()
}

/// Returns a default as input text.
pub(super) fn default_text(default: Option<&Value>) -> String {
    match default {
        None | Some(Value::Null) => String::new(),
        Some(other) => plain_text(other).into_owned(),
    }
}
