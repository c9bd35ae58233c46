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

/// Leaves out `default: null`, which says nothing.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub mod walk;
