//! The JSON Schemas of single values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Bounded, List, MAX_ITEMS, Text, Toggle, Unit};

fn number_schema(min: u64, max: u64, pattern: &str) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": pattern },
        ],
    })
}

/// Implements the schema of a value, which is part of that of its section.
macro_rules! inline_schema {
    ($([$($generics:tt)*] $value:ty, $name:expr => $schema:expr;)+) => { $(
        impl<$($generics)*> JsonSchema for $value {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+ };
}

inline_schema! {
    [U: Unit, const MIN: u64, const MAX: u64, const DEFAULT: u64] Bounded<U, MIN, MAX, DEFAULT>,
        format!("Number{MIN}to{MAX}") => number_schema(MIN, MAX, U::PATTERN);
    [const DEFAULT: bool] Toggle<DEFAULT>, "Toggle" => json_schema!({ "type": "boolean" });
    [] Text, "Text" => json_schema!({ "type": "string" });
    [] List, "List" => json_schema!({
        "anyOf": [
            { "type": "array", "items": { "type": "string" }, "maxItems": MAX_ITEMS },
            { "type": "string" },
        ],
    });
}
