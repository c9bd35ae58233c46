//! The JSON Schema (draft 2020-12) of the configuration, for editors. The file beside this one is
//! generated from the raw types by the tests, so that no program contains the generator.

use lockgate_text::json;
use serde_json::Value;

/// Returns the schema of a configuration file.
pub fn schema() -> Value {
    json::from_str(include_str!("schema.json")).unwrap_or_default()
}

/// Resolves a property's reference, including the reference in an optional property.
pub fn resolve<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let reference = choices(property).iter().find(|choice| choice.get("$ref").is_some());
    let at = reference.unwrap_or(property);
    let Some(reference) = at["$ref"].as_str() else { return at };
    reference.strip_prefix("#/$defs/").map_or(at, |name| &root["$defs"][name])
}

/// Returns the alternatives of a property, if there are several.
pub fn choices(property: &Value) -> &[Value] {
    property["anyOf"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
pub mod tests;
