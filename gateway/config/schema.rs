//! The JSON Schema (draft 2020-12) of the configuration, for editors. Made from the raw types
//! alone.

use serde_json::Value;

use crate::raw::Root;

/// The schema of a configuration file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Root).to_value();
    tidy(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".into(), "Lockgate".into());
    }
    schema
}

/// What a reference in a schema stands for, also where nothing may stand in its place.
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

/// What a property may be, where that is more than one thing.
pub fn choices(property: &Value) -> &[Value] {
    match property["anyOf"].as_array() {
        Some(choices) => choices,
        None => &[],
    }
}

/// Leaves out `default: null`, which says nothing.
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
