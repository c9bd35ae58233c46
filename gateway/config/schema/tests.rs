//! Tests that the schema describes every key, and that descriptions match the numbers.

pub mod walk;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value};

use self::walk::keys;
use crate::raw::Root;
use crate::raw::leaf::{Byte, Second, Unit};

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

/// The settings that most people use.
const BASIC: [&str; 20] = [
    "profile",
    "listen",
    "import",
    "servers.NAME.command",
    "servers.NAME.args",
    "servers.NAME.env",
    "servers.NAME.url",
    "servers.NAME.headers",
    "servers.NAME.timeout",
    "http.public_url",
    "http.tls.cert",
    "http.tls.key",
    "auth.key",
    "auth.keys_file",
    "auth.issuers.NAME.issuer",
    "policy.files",
    "policy.tools",
    "policy.calls_per_minute",
    "log.level",
    "audit.file",
];

fn mark_basic(schema: &mut Value) {
    for path in BASIC {
        let mut pointer = String::new();
        for name in path.split('.') {
            let property = schema.pointer(&pointer).unwrap();
            let mut forms = std::iter::once(property).chain(super::choices(property));
            if let Some(reference) = forms.find_map(|form| form["$ref"].as_str()) {
                pointer = reference.trim_start_matches('#').to_owned();
            }
            pointer += &match name {
                "NAME" => "/additionalProperties".to_owned(),
                _ => format!("/properties/{name}"),
            };
        }
        schema.pointer_mut(&pointer).unwrap()["x-level"] = "basic".into();
    }
}

/// With `LOCKGATE_WRITE_SCHEMA` in the environment the file is written instead.
#[test]
fn the_schema_is_that_of_the_types() {
    let mut schema = schemars::schema_for!(Root).to_value();
    tidy(&mut schema);
    mark_basic(&mut schema);
    schema["title"] = "Lockgate".into();
    // Lines for `git diff`, without indentation: the program contains the file.
    let mut text = Vec::new();
    let lines = PrettyFormatter::with_indent(b"");
    schema.serialize(&mut Serializer::with_formatter(&mut text, lines)).unwrap();
    let text = String::from_utf8(text).unwrap() + "\n";
    if std::env::var_os("LOCKGATE_WRITE_SCHEMA").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.json");
        std::fs::write(file, &text).unwrap();
        return;
    }
    assert_eq!(text, include_str!("../schema.json"), "run tests/helm/run --write-schema");
}

#[test]
fn every_key_is_described_and_its_range_is_in_the_words() {
    let keys = keys();
    assert!(keys.len() > 90, "{} keys", keys.len());
    for key in keys {
        let name = key.path.join(".");
        if key.path.last().is_some_and(|last| last == "NAME") {
            continue;
        }
        assert!(!key.description.is_empty(), "{name} is not described");
        let Some((min, max)) = key.range else { continue };
        let ways = [
            format!("{min}–{max}"),
            format!("{min}–{}", Second::say(max)),
            format!("{}–{}", Byte::say(min), Byte::say(max)),
        ];
        let said = ways.iter().any(|way| key.description.contains(way));
        assert!(said, "{name}: `{}` does not say {ways:?}", key.description);
    }
}

#[test]
fn every_section_refuses_unknown_keys() {
    let schema = crate::schema();
    assert_eq!(schema["additionalProperties"], false);
    let sections = schema["$defs"].as_object().unwrap();
    assert!(sections.len() >= 14, "{:?}", sections.keys());
    for (name, section) in sections {
        assert_eq!(section["additionalProperties"], false, "{name}");
    }
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn defaults_are_values_that_the_gateway_takes() {
    for key in keys() {
        let Some(default) = &key.default else { continue };
        let place = key.path.iter().map(|name| if name == "NAME" { "a" } else { name });
        let mut document = default.clone();
        for name in place.rev() {
            document = serde_json::json!({ name: document });
        }
        let parsed = crate::source::decode::decode::<Root>(
            &figment::value::Value::serialize(&document).unwrap(),
        );
        assert!(parsed.is_ok(), "{}: {default}", key.path.join("."));
    }
}
