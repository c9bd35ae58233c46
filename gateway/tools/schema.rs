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

/// Checks the arguments of a call and fills in defaults; whole numbers written as `3.0` become `3`.
pub(crate) fn check_arguments(
    schema: &Value,
    arguments: &mut Map<String, Value>,
) -> Result<(), String> {
    check_members(schema, arguments, "")
}

fn check_members(schema: &Value, given: &mut Map<String, Value>, path: &str) -> Result<(), String> {
    let properties = properties_of(schema);
    let others = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
    for (key, value) in given.iter_mut() {
        let name = join_path(path, key);
        match (properties.and_then(|all| all.get(key)), others) {
            (Some(property), _) => check_value(property, value, &name)?,
            (None, Value::Bool(false)) => return Err(describe_unknown(properties, &name, path)),
            (None, other) => check_value(other, value, &name)?,
        }
    }
    if let Some(Value::Array(required)) = schema.get("required") {
        for key in required.iter().filter_map(Value::as_str) {
            if given.contains_key(key) {
                continue;
            }
            let name = join_path(path, key);
            let expected = match properties.and_then(|all| all.get(key)) {
                Some(property) => describe_schema(property),
                None => "a value".to_owned(),
            };
            return Err(format!("the argument `{name}` is missing; expected {expected}"));
        }
    }
    for (key, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !given.contains_key(key)) {
            given.insert(key.clone(), default.clone());
        }
    }
    Ok(())
}

fn properties_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn describe_unknown(properties: Option<&Map<String, Value>>, name: &str, path: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    if let Some(properties) = properties {
        known.extend(properties.keys().map(String::as_str));
    }
    let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let taker = if path.is_empty() { "this tool".to_owned() } else { format!("`{path}`") };
    let name: String = name.chars().take(SHOWN).collect();
    format!("unknown argument `{name}`: {taker} takes {takes}")
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
    let size = size as u64;
    let least = schema.get(least).and_then(Value::as_u64);
    let most = schema.get(most).and_then(Value::as_u64);
    least.is_none_or(|least| size >= least) && most.is_none_or(|most| size <= most)
}

/// Compares whole numbers exactly, others as doubles.
fn at_most(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (as_whole(a), as_whole(b)) {
        return a <= b;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a <= b,
        _ => false,
    }
}

/// A whole number of any size that JSON has here.
pub(crate) fn as_whole(value: &Value) -> Option<i128> {
    match (value.as_i64(), value.as_u64()) {
        (Some(number), _) => Some(number.into()),
        (None, Some(number)) => Some(number.into()),
        (None, None) => None,
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
    let words: Vec<String> = types.iter().map(|kind| describe_type(schema, kind)).collect();
    words.join(" or ")
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
