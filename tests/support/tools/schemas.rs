//! Tools for testing input schemas: all of JSON Schema 2020-12, and arguments sent as `Mcp-Param-*`
//! headers.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::{Answer, text, with_schema};

pub(super) fn list() -> Vec<Tool> {
    vec![
        with_schema(
            "json_schema_2020_12_tool",
            "Tool with JSON Schema 2020-12 features",
            address_schema(),
        ),
        with_schema(
            "test_header_arguments",
            "Takes arguments that are mirrored into headers",
            json!({
                "type": "object",
                "properties": {
                    "region": {
                        "type": "string",
                        "description": "Where to look",
                        "x-mcp-header": "Region"
                    },
                    "limit": {
                        "type": "integer",
                        "description": "How much to look for",
                        "x-mcp-header": "Limit"
                    },
                    "query": {"type": "string", "description": "What to look for"}
                }
            }),
        ),
    ]
}

pub(super) fn call(name: &str, arguments: &JsonObject) -> Option<Answer> {
    match name {
        "json_schema_2020_12_tool" | "test_header_arguments" => {
            Some(text(Value::Object(arguments.clone()).to_string()))
        }
        _ => None,
    }
}

fn address_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"]
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    })
}
