//! Reads the parts of a JSON Schema that forms use: internal references, kinds, rules and defaults.

use serde_json::Value;

use super::input::{FieldKind, Rules};
use crate::console::shown::show_text;

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
