//! Arguments against a tool's input schema: the part of JSON Schema 2020-12 that built-in tools
//! use, with messages that name the argument, what was expected and what came. A schema with any
//! other keyword is refused when its tool is registered, so that nothing is left unchecked in
//! silence.

use serde_json::{Map, Value};

/// Keywords that say nothing about which values fit.
const NOTES: [&str; 7] =
    ["$schema", "title", "description", "examples", "default", "format", "deprecated"];
/// Keywords that are checked.
const CHECKED: [&str; 12] = [
    "type",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];
/// Largest whole number that a double holds exactly, with all below it.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Most characters of a value that are shown.
const SHOWN: usize = 80;

/// Whether every keyword of a schema is one that [`check_arguments`] checks.
pub(crate) fn is_checkable(schema: &Value) -> Result<(), String> {
    let Some(all) = schema.as_object() else {
        return if schema.is_boolean() { Ok(()) } else { Err("a schema must be an object".into()) };
    };
    if let Some(word) =
        all.keys().find(|k| !NOTES.contains(&k.as_str()) && !CHECKED.contains(&k.as_str()))
    {
        return Err(format!("the keyword `{word}` is not checked"));
    }
    if let Some(kind) = declared_types(schema).into_iter().find(|kind| !TYPES.contains(kind)) {
        return Err(format!("there is no type `{kind}`"));
    }
    let properties = all.get("properties").and_then(Value::as_object);
    let mut below = properties
        .into_iter()
        .flat_map(Map::values)
        .chain(all.get("items"))
        .chain(all.get("additionalProperties"));
    below.try_for_each(is_checkable)
}

/// Checks the arguments of a call and fills in defaults; whole numbers written as `3.0` become `3`.
pub(crate) fn check_arguments(
    schema: &Value,
    arguments: &mut Map<String, Value>,
) -> Result<(), String> {
    check_members(schema, arguments, "")
}

fn check_members(schema: &Value, given: &mut Map<String, Value>, path: &str) -> Result<(), String> {
    let name = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |key: &str| properties.and_then(|p| p.get(key));
    let others = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
    for (key, value) in given.iter_mut() {
        match (known(key), others) {
            (Some(property), _) => check_value(property, value, &name(key))?,
            (None, Value::Bool(false)) => {
                return Err(describe_unknown(properties, &name(key), path));
            }
            (None, other) => check_value(other, value, &name(key))?,
        }
    }
    for key in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !given.contains_key(key) {
            let expected = known(key).map_or_else(|| "a value".to_owned(), describe_schema);
            return Err(format!("the argument `{}` is missing; expected {expected}", name(key)));
        }
    }
    for (key, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !given.contains_key(key)) {
            given.insert(key.clone(), default.clone());
        }
    }
    Ok(())
}

fn describe_unknown(properties: Option<&Map<String, Value>>, name: &str, path: &str) -> String {
    let known: Vec<&str> = properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let taker = if path.is_empty() { "this tool".to_owned() } else { format!("`{path}`") };
    let name: String = name.chars().take(SHOWN).collect();
    format!("unknown argument `{name}`: {taker} takes {takes}")
}

fn check_value(schema: &Value, value: &mut Value, name: &str) -> Result<(), String> {
    let wrong = |value: &Value| {
        Err(format!(
            "`{name}` must be {}, received {}",
            describe_schema(schema),
            describe_value(value)
        ))
    };
    let types = declared_types(schema);
    let mut integer = types.contains(&"integer") && !types.contains(&"number");
    integer = integer && normalize_integer(value);
    let fits_type = types.is_empty() || integer || types.iter().any(|kind| has_type(value, kind));
    if !fits_type || !is_within_bounds(schema, value) {
        return wrong(value);
    }
    match value {
        Value::Array(list) => {
            let Some(items) = schema.get("items") else { return Ok(()) };
            let mut each = list.iter_mut().enumerate();
            each.try_for_each(|(at, item)| check_value(items, item, &format!("{name}[{at}]")))
        }
        Value::Object(all) => check_members(schema, all, name),
        _ => Ok(()),
    }
}

fn declared_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

/// Whether it is a whole number; `3.0` becomes `3`.
fn normalize_integer(value: &mut Value) -> bool {
    if let Some(number) = value.as_f64().filter(|_| value.is_f64())
        && number.fract() == 0.0
        && number.abs() <= EXACT
        && let Ok(exact) = format!("{number:.0}").parse::<i64>()
    {
        *value = exact.into();
    }
    value.is_i64() || value.is_u64()
}

fn is_within_bounds(schema: &Value, value: &Value) -> bool {
    let bound = |word: &str| schema.get(word);
    let count =
        |word: &str| bound(word).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let sized = |size: usize, least: &str, most: &str| {
        count(least).is_none_or(|least| size >= least)
            && count(most).is_none_or(|most| size <= most)
    };
    let listed = bound("enum").and_then(Value::as_array).is_none_or(|words| words.contains(value));
    listed
        && match value {
            Value::Number(_) => {
                bound("minimum").is_none_or(|least| at_most(least, value))
                    && bound("maximum").is_none_or(|most| at_most(value, most))
            }
            Value::String(text) => sized(text.chars().count(), "minLength", "maxLength"),
            Value::Array(list) => sized(list.len(), "minItems", "maxItems"),
            _ => true,
        }
}

/// Compares whole numbers exactly, others as doubles.
fn at_most(a: &Value, b: &Value) -> bool {
    let whole = |v: &Value| v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a <= b,
        _ => a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a <= b),
    }
}

/// What fits a schema, in words.
fn describe_schema(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return if words.len() == 1 {
            words.join("")
        } else {
            format!("one of {}", words.join(", "))
        };
    }
    let types = declared_types(schema);
    if types.is_empty() {
        return "a value".into();
    }
    types.iter().map(|kind| describe_type(schema, kind)).collect::<Vec<_>>().join(" or ")
}

fn describe_type(schema: &Value, kind: &str) -> String {
    let bound = |word: &str| schema.get(word).map(Value::to_string);
    let range = |least: &str, most: &str, unit: &str| match (bound(least), bound(most)) {
        (Some(least), Some(most)) => {
            format!(" {}from {least} to {most}{unit}", if unit.is_empty() { "" } else { "of " })
        }
        (Some(least), None) => format!(" of at least {least}{unit}"),
        (None, Some(most)) => format!(" of at most {most}{unit}"),
        (None, None) => String::new(),
    };
    match kind {
        "string" => format!("a string{}", range("minLength", "maxLength", " characters")),
        "integer" => format!("a whole number{}", range("minimum", "maximum", "")),
        "number" => format!("a number{}", range("minimum", "maximum", "")),
        "boolean" => "true or false".into(),
        "array" => {
            let each = schema
                .get("items")
                .map(|items| format!(", each {}", describe_schema(items)))
                .unwrap_or_default();
            format!("a list{}{each}", range("minItems", "maxItems", " items"))
        }
        "object" => "an object".into(),
        _ => "null".into(),
    }
}

/// A value in a message: shortened, and a long string by its length.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN => {
            format!("{} characters", text.chars().count())
        }
        Value::Array(list) if list.len() > 8 => format!("{} items", list.len()),
        value => {
            let text = value.to_string();
            let short: String = text.chars().take(SHOWN).collect();
            if short.len() < text.len() { format!("{short}…") } else { short }
        }
    }
}

#[cfg(test)]
mod tests;
