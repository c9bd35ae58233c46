//! Tests that the schema describes every key, and that descriptions match the numbers.

use super::walk::keys;
use crate::raw::leaf::{Byte, Second, Unit};

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
        let parsed = crate::source::decode::decode::<crate::raw::Root>(
            &figment::value::Value::serialize(&document).unwrap(),
        );
        assert!(parsed.is_ok(), "{}: {default}", key.path.join("."));
    }
}
