//! Validation of arguments against a tool's input schema: the subset of JSON Schema 2020-12 that
//! built-in tools use. Messages name the argument, the expected and the received value. Tools with
//! other keywords in their schema are rejected at registration, so that no constraint is silently
//! ignored.

use serde_json::{Map, Value};

use crate::tool::first_chars;

/// Keywords without effect on validation.
const NOTES: [&str; 7] =
    ["$schema", "title", "description", "examples", "default", "format", "deprecated"];
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
/// 2^53: all integers up to it are exact in a double.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// Returns an error unless [`check_arguments`] checks all keywords of a schema.
pub(crate) fn is_checkable(schema: &Value) -> Result<(), String> {
    let Some(all) = schema.as_object() else {
        return if schema.is_boolean() { Ok(()) } else { Err("a schema must be an object".into()) };
    };
    for word in all.keys() {
        if !NOTES.contains(&word.as_str()) && !CHECKED.contains(&word.as_str()) {
            return Err(format!("the keyword `{word}` is not checked"));
        }
    }
    for kind in declared_types(schema) {
        if !TYPES.contains(&kind) {
            return Err(format!("there is no type `{kind}`"));
        }
    }
    if let Some(properties) = properties_of(schema) {
        for property in properties.values() {
            is_checkable(property)?;
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(below) = all.get(word) {
            is_checkable(below)?;
        }
    }
    Ok(())
}

/// Validates the arguments of a call and inserts defaults. Integers written as `3.0` become `3`.
pub(crate) fn check_arguments(
    schema: &Value,
    arguments: &mut Map<String, Value>,
) -> Result<(), String> {
    check_members(schema, arguments, "")
}

fn check_members(schema: &Value, given: &mut Map<String, Value>, path: &str) -> Result<(), String> {
    let none = Map::new();
    let properties = properties_of(schema).unwrap_or(&none);
    let others = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
    for (key, value) in given.iter_mut() {
        let name = join_path(path, key);
        match (properties.get(key), others) {
            (Some(property), _) => check_value(property, value, &name)?,
            (None, Value::Bool(false)) => return Err(describe_unknown(properties, &name, path)),
            (None, other) => check_value(other, value, &name)?,
        }
    }
    if let Some(Value::Array(required)) = schema.get("required") {
        for key in required {
            let Some(key) = key.as_str() else { continue };
            if given.contains_key(key) {
                continue;
            }
            let name = join_path(path, key);
            let expected = properties.get(key).map_or("a value".to_owned(), describe_schema);
            return Err(format!("the argument `{name}` is missing; expected {expected}"));
        }
    }
    for (key, property) in properties {
        if !given.contains_key(key)
            && let Some(default) = property.get("default")
        {
            given.insert(key.clone(), default.clone());
        }
    }
    Ok(())
}

fn properties_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn describe_unknown(properties: &Map<String, Value>, name: &str, path: &str) -> String {
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let taker = if path.is_empty() { "this tool".to_owned() } else { format!("`{path}`") };
    format!("unknown argument `{}`: {taker} takes {takes}", first_chars(name, MAX_SHOWN_CHARS))
}

fn check_value(schema: &Value, value: &mut Value, name: &str) -> Result<(), String> {
    let types = declared_types(schema);
    let mut integer = types.contains(&"integer") && !types.contains(&"number");
    integer = integer && normalize_integer(value);
    let fits_type = types.is_empty() || integer || types.iter().any(|kind| has_type(value, kind));
    if !fits_type || !is_within_bounds(schema, value) {
        let expected = describe_schema(schema);
        return Err(format!("`{name}` must be {expected}, received {}", describe_value(value)));
    }
    match value {
        Value::Array(list) => {
            let Some(items) = schema.get("items") else { return Ok(()) };
            for (at, item) in list.iter_mut().enumerate() {
                check_value(items, item, &format!("{name}[{at}]"))?;
            }
            Ok(())
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

/// Returns whether a value is an integer, after converting `3.0` to `3`.
fn normalize_integer(value: &mut Value) -> bool {
    if value.is_f64()
        && let Some(number) = value.as_f64()
        && number.fract() == 0.0
        && number.abs() <= MAX_EXACT_INTEGER
        && let Ok(exact) = format!("{number:.0}").parse::<i64>()
    {
        *value = exact.into();
    }
    value.is_i64() || value.is_u64()
}

fn is_within_bounds(schema: &Value, value: &Value) -> bool {
    if let Some(Value::Array(words)) = schema.get("enum")
        && !words.contains(value)
    {
        return false;
    }
    match value {
        Value::Number(_) => {
            schema.get("minimum").is_none_or(|least| at_most(least, value))
                && schema.get("maximum").is_none_or(|most| at_most(value, most))
        }
        Value::String(text) => is_sized(schema, text.chars().count(), "minLength", "maxLength"),
        Value::Array(list) => is_sized(schema, list.len(), "minItems", "maxItems"),
        _ => true,
    }
}

fn is_sized(schema: &Value, size: usize, least: &str, most: &str) -> bool {
    let least = schema[least].as_u64().unwrap_or(0);
    let most = schema[most].as_u64().unwrap_or(u64::MAX);
    (least..=most).contains(&(size as u64))
}

/// Compares integers exactly, other numbers as doubles.
fn at_most(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (as_whole(a), as_whole(b)) {
        return a <= b;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a <= b,
        _ => false,
    }
}

/// Returns an integer of JSON, signed or unsigned.
pub(crate) fn as_whole(value: &Value) -> Option<i128> {
    value.as_number()?.as_i128()
}

fn describe_schema(schema: &Value) -> String {
    if let Some(Value::Array(values)) = schema.get("enum") {
        let words: Vec<String> = values.iter().map(Value::to_string).collect();
        return match words.as_slice() {
            [word] => word.clone(),
            words => format!("one of {}", words.join(", ")),
        };
    }
    let words: Vec<_> =
        declared_types(schema).into_iter().map(|kind| describe_type(schema, kind)).collect();
    if words.is_empty() { "a value".into() } else { words.join(" or ") }
}

fn describe_type(schema: &Value, kind: &str) -> String {
    match kind {
        "string" => {
            format!("a string{}", describe_range(schema, "minLength", "maxLength", " characters"))
        }
        "integer" => format!("a whole number{}", describe_range(schema, "minimum", "maximum", "")),
        "number" => format!("a number{}", describe_range(schema, "minimum", "maximum", "")),
        "boolean" => "true or false".into(),
        "array" => {
            let range = describe_range(schema, "minItems", "maxItems", " items");
            match schema.get("items") {
                Some(items) => format!("a list{range}, each {}", describe_schema(items)),
                None => format!("a list{range}"),
            }
        }
        "object" => "an object".into(),
        _ => "null".into(),
    }
}

fn describe_range(schema: &Value, least: &str, most: &str, unit: &str) -> String {
    match (schema.get(least), schema.get(most)) {
        (Some(least), Some(most)) if unit.is_empty() => format!(" from {least} to {most}"),
        (Some(least), Some(most)) => format!(" of from {least} to {most}{unit}"),
        (Some(least), None) => format!(" of at least {least}{unit}"),
        (None, Some(most)) => format!(" of at most {most}{unit}"),
        (None, None) => String::new(),
    }
}

/// Describes a value in a message: shortened, or by its length.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) if first_chars(text, MAX_SHOWN_CHARS) != text => {
            format!("{} characters", text.chars().count())
        }
        Value::Array(list) if list.len() > 8 => format!("{} items", list.len()),
        value => {
            let text = value.to_string();
            let short = first_chars(&text, MAX_SHOWN_CHARS);
            if short == text { text } else { format!("{short}…") }
        }
    }
}

#[cfg(test)]
mod tests;
