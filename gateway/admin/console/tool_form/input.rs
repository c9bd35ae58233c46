//! Input kinds of an argument, the validation of its text, and the conversion to a value.

use lockgate_text::json;
use regex::RegexBuilder;
use serde_json::{Number, Value};

use crate::console::render::show_text;

/// Maximum size of a compiled pattern, in bytes. Matching takes time proportional to this size
/// times the length of the text, and patterns come from servers: larger patterns and longer texts
/// are left to browsers and servers.
const MAX_PATTERN: usize = 16 << 10;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_TEXT: usize = 1 << 10;
/// Maximum length of a text that is matched, in bytes.
const MAX_MATCHED: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldKind {
    /// A single-line input of this HTML type.
    Line(&'static str),
    Text,
    Number,
    /// A choice between values; a boolean has `true` and `false`.
    Choice(Vec<Value>),
    /// An object, with a field for each member.
    Group,
    /// A list, with a field for each row.
    List,
    /// Any other value, as JSON.
    Json,
}

/// The constraints of a schema that forms check.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    pub(crate) is_required: bool,
    pub(crate) is_integer: bool,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) above: Option<f64>,
    pub(crate) below: Option<f64>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_length: Option<usize>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_items: Option<usize>,
    pub(crate) pattern: String,
}

/// Returns the text of a choice.
pub(crate) fn show_choice(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl FieldKind {
    /// Returns the memory of the choices, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let Self::Choice(values) = self else { return 0 };
        let texts: usize = values.iter().map(|value| show_choice(value).len()).sum();
        texts + size_of_val(values.as_slice())
    }

    pub(crate) fn choices(&self) -> Vec<String> {
        match self {
            Self::Choice(values) => values.iter().map(show_choice).collect(),
            _ => Vec::new(),
        }
    }
}

impl Rules {
    /// Returns a description of the rules; empty if there are none.
    pub(crate) fn hint(&self) -> String {
        let mut hints = Vec::new();
        add_range(&mut hints, (self.min, self.max), "");
        if let Some(above) = self.above {
            hints.push(format!("more than {above}"));
        }
        if let Some(below) = self.below {
            hints.push(format!("less than {below}"));
        }
        add_range(&mut hints, (self.min_length, self.max_length), " characters");
        add_range(&mut hints, (self.min_items, self.max_items), " items");
        if !self.pattern.is_empty() {
            hints.push(format!("pattern {}", self.pattern));
        }
        hints.join(", ")
    }

    /// Returns the pattern for browsers, which match it against the whole value.
    pub(crate) fn browser_pattern(&self) -> String {
        if self.pattern.is_empty() { String::new() } else { format!(".*(?:{}).*", self.pattern) }
    }

    pub(crate) fn check_count(&self, count: usize) -> Result<(), String> {
        match (self.min_items, self.max_items) {
            (Some(least), _) if count < least && (self.is_required || count > 0) => {
                Err(say_limit("At least", least, " items", "required"))
            }
            (_, Some(most)) if count > most => Err(say_limit("At most", most, " items", "allowed")),
            _ => Ok(()),
        }
    }

    fn check_number(&self, number: f64) -> Result<(), String> {
        match (self.min, self.max, self.above, self.below) {
            (Some(min), ..) if number < min => Err(format!("This must be at least {min}.")),
            (_, Some(max), ..) if number > max => Err(format!("This must be at most {max}.")),
            (_, _, Some(above), _) if number <= above => {
                Err(format!("This must be more than {above}."))
            }
            (.., Some(below)) if number >= below => Err(format!("This must be less than {below}.")),
            _ if self.is_integer && number.fract() != 0.0 => {
                Err("This must be a whole number.".into())
            }
            _ => Ok(()),
        }
    }

    fn check_text(&self, text: &str) -> Result<(), String> {
        let length = text.chars().count();
        match (self.min_length, self.max_length) {
            (Some(least), _) if length < least => {
                return Err(say_limit("At least", least, " characters", "required"));
            }
            (_, Some(most)) if length > most => {
                return Err(say_limit("At most", most, " characters", "allowed"));
            }
            _ => {}
        }
        let is_matched = text.len() <= MAX_MATCHED && self.pattern.len() <= MAX_PATTERN_TEXT;
        if self.pattern.is_empty() || !is_matched {
            return Ok(());
        }
        // Schema patterns are ECMAScript. Patterns that fail to compile here are left to browsers
        // and servers.
        let compiled = RegexBuilder::new(&self.pattern).size_limit(MAX_PATTERN).build();
        match compiled {
            Ok(pattern) if !pattern.is_match(text) => {
                Err(format!("This must match the pattern {}.", self.pattern))
            }
            _ => Ok(()),
        }
    }
}

fn add_range<T: std::fmt::Display>(
    hints: &mut Vec<String>,
    range: (Option<T>, Option<T>),
    unit: &str,
) {
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
fn write_count(number: impl std::fmt::Display, unit: &str) -> String {
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
pub(super) fn read(kind: &FieldKind, rules: &Rules, text: &str) -> Result<Option<Value>, String> {
    if text.trim().is_empty() {
        return if rules.is_required { Err("This is required.".into()) } else { Ok(None) };
    }
    match kind {
        FieldKind::Number => read_number(rules, text.trim()).map(Some),
        FieldKind::Choice(values) => match values.iter().find(|one| show_choice(one) == text) {
            Some(value) => Ok(Some(value.clone())),
            None => Err("This must be one of the choices.".into()),
        },
        FieldKind::Json | FieldKind::Group | FieldKind::List => match json::from_str(text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(format!("This must be JSON: {error}.")),
        },
        FieldKind::Line("datetime-local") => Ok(Some(write_moment(text).into())),
        FieldKind::Line(_) | FieldKind::Text => {
            rules.check_text(text)?;
            Ok(Some(text.into()))
        }
    }
}

fn read_number(rules: &Rules, text: &str) -> Result<Value, String> {
    let Ok(number) = json::from_str::<Number>(text) else {
        return Err("This must be a number.".into());
    };
    rules.check_number(number.as_f64().unwrap_or(f64::NAN))?;
    Ok(Value::Number(number))
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

/// Returns a member of a schema; empty if it is not a string.
pub(super) fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or("")
}

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
    let mut others = all.iter().filter(|one| text(one, "type") != "null");
    let first = others.next()?;
    if others.next().is_some() { None } else { Some(first) }
}

/// Returns the description of an argument, or that of the schema it refers to.
pub(super) fn describe(schema: &Value, resolved: &Value) -> String {
    let own = text(schema, "description");
    show_text(if own.is_empty() { text(resolved, "description") } else { own })
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
pub(super) fn kind_of(schema: &Value, may_nest: bool) -> FieldKind {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return FieldKind::Choice(values.clone());
    }
    if let Some(value) = schema.get("const") {
        return FieldKind::Choice(vec![value.clone()]);
    }
    match type_of(schema) {
        "string" => kind_of_text(schema),
        "integer" | "number" => FieldKind::Number,
        "boolean" => FieldKind::Choice(vec![true.into(), false.into()]),
        "object" if may_nest => FieldKind::Group,
        "array" if may_nest && schema.get("items").is_some_and(Value::is_object) => FieldKind::List,
        _ => FieldKind::Json,
    }
}

fn kind_of_text(schema: &Value) -> FieldKind {
    match text(schema, "format") {
        "date" => FieldKind::Line("date"),
        "date-time" => FieldKind::Line("datetime-local"),
        "time" => FieldKind::Line("time"),
        "email" => FieldKind::Line("email"),
        "uri" | "url" => FieldKind::Line("url"),
        _ if !text(schema, "pattern").is_empty() => FieldKind::Line("text"),
        _ => match count(schema, "maxLength") {
            Some(most) if most <= LONG_TEXT => FieldKind::Line("text"),
            _ => FieldKind::Text,
        },
    }
}

fn count(schema: &Value, name: &str) -> Option<usize> {
    usize::try_from(schema.get(name)?.as_u64()?).ok()
}

fn number(schema: &Value, name: &str) -> Option<f64> {
    schema.get(name)?.as_f64()
}

pub(super) fn rules_of(schema: &Value, is_required: bool) -> Rules {
    Rules {
        is_required,
        is_integer: type_of(schema) == "integer",
        min: number(schema, "minimum"),
        max: number(schema, "maximum"),
        above: number(schema, "exclusiveMinimum"),
        below: number(schema, "exclusiveMaximum"),
        min_length: count(schema, "minLength"),
        max_length: count(schema, "maxLength"),
        min_items: count(schema, "minItems"),
        max_items: count(schema, "maxItems"),
        pattern: text(schema, "pattern").to_owned(),
    }
}

/// Returns a default as input text.
pub(super) fn default_text(default: Option<&Value>) -> String {
    match default {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
