//! The published JSON Schemas are those of the types. With `LOCKGATE_WRITE_SCHEMA` in the
//! environment the files are written instead.

use std::path::Path;

use serde_json::Value;

use super::File;
use crate::cases::Cases;

/// Removes `default: null`, which carries no information.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            for value in object.values_mut() {
                tidy(value);
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

#[allow(clippy::disallowed_methods, reason = "tests write the published files")]
fn publish(name: &str, mut schema: Value, title: &str) {
    schema["title"] = title.into();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies").join(name);
    if std::env::var_os("LOCKGATE_WRITE_SCHEMA").is_some() {
        std::fs::write(file, text).unwrap();
        return;
    }
    let published = std::fs::read_to_string(file).unwrap();
    assert_eq!(text, published, "run tests/helm/run --write-schema");
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let mut policies = schemars::schema_for!(File).to_value();
    tidy(&mut policies);
    publish("schema.json", policies, "Lockgate policies");
    let cases = schemars::schema_for!(Cases).to_value();
    publish("cases.schema.json", cases, "Test cases of Lockgate policies");
}
