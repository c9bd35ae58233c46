//! Validation of arguments against a tool's input schema (JSON Schema 2020-12). Messages name the
//! argument, the expected and the received value, in words for the keywords of built-in tools.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::tool::first_chars;

/// 2^53: all integers up to it are exact in a double.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    text: Value,
    validator: Validator,
}

impl Schema {
    pub(crate) fn compile(text: &Value) -> Result<Self, String> {
        let options = jsonschema::options().with_draft(Draft::Draft202012).offline();
        let validator = options.build(text).map_err(|error| error.to_string())?;
        Ok(Self { text: text.clone(), validator })
    }

    /// Validates the arguments of a call and inserts defaults. Integers written as `3.0` become
    /// `3`.
    pub(crate) fn check(&self, mut given: Value) -> Result<Value, String> {
        let is_exact = normalize(&self.text, &mut given);
        if let Err(error) = self.validator.validate(&given) {
            return Err(self.describe(&error));
        }
        if !is_exact {
            return Err("a whole number is larger than a number can represent exactly".into());
        }
        insert_defaults(&self.text, &mut given);
        Ok(given)
    }

    fn describe(&self, error: &ValidationError<'_>) -> String {
        let path = join_path(error);
        // The schema that the keyword belongs to.
        let place = error.schema_path().as_str().rsplit_once('/').map_or("", |(place, _)| place);
        let schema = self.text.pointer(place).unwrap_or(&self.text);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                describe_unknown(schema, unexpected.first().map_or("", String::as_str), &path)
            }
            ValidationErrorKind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let expected = schema["properties"].get(key);
                let expected = expected.map_or("a value".to_owned(), describe_schema);
                let name = join(&path, key);
                format!("the argument `{name}` is missing; expected {expected}")
            }
            _ => {
                let expected = describe_schema(schema);
                let received = describe_value(error.instance());
                format!("`{path}` must be {expected}, received {received}")
            }
        }
    }
}

/// Returns the place of a value, such as `a.b[1]`.
fn join_path(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path() {
        path = match segment {
            LocationSegment::Property(key) => join(&path, &key),
            LocationSegment::Index(at) => format!("{path}[{at}]"),
        };
    }
    path
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn describe_unknown(schema: &Value, key: &str, path: &str) -> String {
    let known = properties_of(schema).map(|all| Vec::from_iter(all.keys().map(String::as_str)));
    let known = known.unwrap_or_default();
    let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let taker = if path.is_empty() { "this tool".to_owned() } else { format!("`{path}`") };
    let name = join(path, key);
    format!("unknown argument `{}`: {taker} takes {takes}", first_chars(&name, MAX_SHOWN_CHARS))
}

fn properties_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Writes integers as such, in this value and the values inside. Returns whether all are exact.
fn normalize(schema: &Value, value: &mut Value) -> bool {
    match value {
        Value::Object(members) => members.iter_mut().all(|(key, member)| {
            let property = properties_of(schema).and_then(|all| all.get(key));
            let inner = property.or_else(|| schema.get("additionalProperties"));
            inner.is_none_or(|schema| normalize(schema, member))
        }),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return true };
            items.iter_mut().all(|item| normalize(schema, item))
        }
        Value::Number(number) if number.is_f64() && is_of_integers(schema) => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0);
            // The schema refuses fractions.
            let Some(float) = float else { return true };
            let exact = format!("{float:.0}").parse::<i64>();
            match exact {
                Ok(exact) if float.abs() <= MAX_EXACT_INTEGER => *value = exact.into(),
                _ => return false,
            }
            true
        }
        _ => true,
    }
}

fn is_of_integers(schema: &Value) -> bool {
    let types = declared_types(schema);
    types.contains(&"integer") && !types.contains(&"number")
}

fn insert_defaults(schema: &Value, value: &mut Value) {
    if let (Some(properties), Value::Object(members)) = (properties_of(schema), value) {
        for (key, property) in properties {
            if let Some(member) = members.get_mut(key) {
                insert_defaults(property, member);
            } else if let Some(default) = property.get("default") {
                members.insert(key.clone(), default.clone());
            }
        }
    }
}

fn declared_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
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
