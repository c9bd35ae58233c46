//! The JSON Schema (draft 2020-12) of the configuration, for editors, generated from the raw types.

use serde_json::Value;

use crate::raw::Root;

/// Returns the schema of a configuration file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Root).to_value();
    tidy(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".into(), "Lockgate".into());
    }
    schema
}

/// Resolves a property's reference, including the reference in an optional property.
pub fn resolve<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let mut at = property;
    for choice in choices(property) {
        if choice.get("$ref").is_some() {
            at = choice;
            break;
        }
    }
    let Some(reference) = at["$ref"].as_str() else { return at };
    match reference.strip_prefix("#/$defs/") {
        Some(name) => &root["$defs"][name],
        None => at,
    }
}

/// Returns the alternatives of a property, if there are several.
pub fn choices(property: &Value) -> &[Value] {
    match property["anyOf"].as_array() {
        Some(choices) => choices,
        None => &[],
    }
}

/// Removes the useless `default: null`.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            for below in object.values_mut() {
                tidy(below);
            }
        }
        Value::Array(items) => {
            for item in items {
                tidy(item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub mod walk;
