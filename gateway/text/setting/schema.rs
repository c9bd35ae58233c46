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

impl<U: Unit, const MIN: u64, const MAX: u64, const DEFAULT: u64> JsonSchema
    for Bounded<U, MIN, MAX, DEFAULT>
{
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Number{MIN}to{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        number_schema(MIN, MAX, U::PATTERN)
    }
}

impl<const DEFAULT: bool> JsonSchema for Toggle<DEFAULT> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Toggle".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl JsonSchema for List {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "array", "items": { "type": "string" }, "maxItems": MAX_ITEMS },
                { "type": "string" },
            ],
        })
    }
}
