//! The document that the types describe. With `LOCKGATE_WRITE_SCHEMA` in the environment, the file
//! is written instead of compared.

#![allow(clippy::disallowed_methods, reason = "a test that writes a file of the repository")]

use std::collections::BTreeMap;

use axum::http::StatusCode;
use lockgate_authn::Role;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use crate::api::access::Permission;
use crate::api::routes;

/// The reference to the schema of error bodies.
const PROBLEM: &str = "#/components/schemas/Problem";

#[test]
fn the_schema_is_that_of_the_types() {
    // Lines for `git diff`, without indentation: the program contains the file.
    let mut text = Vec::new();
    let lines = PrettyFormatter::with_indent(b"");
    describe().serialize(&mut Serializer::with_formatter(&mut text, lines)).unwrap();
    let text = String::from_utf8(text).unwrap() + "\n";
    if std::env::var_os("LOCKGATE_WRITE_SCHEMA").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/api/openapi.json");
        std::fs::write(file, &text).unwrap();
        return;
    }
    assert_eq!(text, include_str!("../openapi.json"), "run tests/helm/run --write-schema");
}

/// Returns the whole document, with the permissions of the table of routes.
fn describe() -> Value {
    let (description, permissions) = routes::describe();
    let permissions: BTreeMap<_, _> = permissions.into_iter().collect();
    let mut document = serde_json::to_value(description).unwrap();
    document["openapi"] = "3.1.0".into();
    document["info"] = json!({
        "title": "Lockgate",
        "description": "A gateway in front of many MCP servers. Errors are problem details (RFC \
            9457) with a stable code.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    });
    document["servers"] = json!([{"url": "/api"}]);
    for (path, item) in document["paths"].as_object_mut().unwrap() {
        for described in item.as_object_mut().unwrap().values_mut() {
            let permission = permissions[described["operationId"].as_str().unwrap()];
            add_parameters(described, path);
            add_responses(described, path);
            describe_operation(described, permission);
        }
    }
    let components = &mut document["components"];
    if components.is_null() {
        *components = json!({});
    }
    components["securitySchemes"] = json!({"bearer": {"type": "http", "scheme": "bearer"}});
    components["responses"] =
        json!({"Problem": {"description": "Error", "content": problem_content()}});
    components["schemas"]["Problem"] = problem_schema();
    relax_bodies(&mut document);
    open_objects(&mut document);
    document
}

fn problem_content() -> Value {
    json!({"application/problem+json": {"schema": {"$ref": PROBLEM}}})
}

/// Adds the parameters of the path that the operation does not describe itself.
fn add_parameters(described: &mut Value, path: &str) {
    let given = described["parameters"].as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for name in path.split(['{', '}']).skip(1).step_by(2) {
        let name = name.trim_start_matches('*');
        if !given.iter().any(|parameter| parameter["name"] == name) {
            let schema = json!({"type": "string"});
            all.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        }
    }
    all.extend(given);
    if !all.is_empty() {
        described["parameters"] = all.into();
    }
}

/// Adds the responses that all operations of a kind have: on an object that may be missing, on a
/// version, and of a dry run that would create an object.
fn add_responses(described: &mut Value, path: &str) {
    let parameters = described["parameters"].as_array().cloned().unwrap_or_default();
    let has = |name| parameters.iter().any(|parameter| parameter["name"] == name);
    let responses = &mut described["responses"];
    let mut common = BTreeMap::new();
    if path.contains('{') {
        common.insert("404", json!({"description": "Not found"}));
    }
    if has("If-Match") {
        let words = "Changed since the version in `If-Match`";
        common.insert("412", json!({"description": words}));
    }
    if has("dryRun") && responses["201"].is_object() {
        let content = &responses["201"]["content"];
        common.insert("200", json!({"description": "`dryRun`", "content": content}));
    }
    for (status, response) in common {
        if responses[status].is_null() {
            responses[status] = response;
        }
    }
    if let Value::Object(responses) = responses {
        responses.sort_keys();
    }
}

/// Completes the responses of an operation: OpenAPI requires a description for each, and the body
/// of every error is a problem.
fn complete_responses(described: &mut Value) {
    let Some(Value::Object(responses)) = described.get_mut("responses") else { return };
    for (status, response) in responses {
        let Ok(status) = status.parse::<StatusCode>() else { continue };
        if response.get("$ref").is_some() {
            continue;
        }
        if response["description"].as_str().unwrap_or("").is_empty() {
            response["description"] = status.canonical_reason().unwrap_or("Answered").into();
        }
        if response["content"].is_null() && (status.is_client_error() || status.is_server_error()) {
            response["content"] = problem_content();
        }
    }
}

/// Makes bodies without required members optional: an empty body is an empty object.
fn relax_bodies(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let Some(Value::Object(paths)) = document.get_mut("paths") else { return };
    let operations = paths.values_mut().filter_map(Value::as_object_mut).flatten();
    for (_, operation) in operations {
        let Some(body) = operation.get_mut("requestBody") else { continue };
        let schema = &body["content"]["application/json"]["schema"];
        let name = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next());
        let schema = name.map_or(schema, |name| &schemas[name]);
        let is_required = schema["required"].as_array().is_some_and(|all| !all.is_empty());
        body["required"] = is_required.into();
    }
}

/// Marks objects without named members as open. Client generators take them for empty otherwise.
fn open_objects(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(open_objects),
        Value::Object(members) => {
            members.values_mut().for_each(open_objects);
            let is_object = match members.get("type") {
                Some(Value::String(kind)) => kind == "object",
                Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
                _ => false,
            };
            if is_object && !members.contains_key("properties") {
                members.entry("additionalProperties").or_insert(true.into());
            }
        }
        _ => {}
    }
}

fn describe_operation(described: &mut Value, permission: Permission) {
    described["x-permission"] = permission.as_str().into();
    if described["responses"].is_null() {
        described["responses"] = json!({});
    }
    complete_responses(described);
    described["responses"]["default"] = json!({"$ref": "#/components/responses/Problem"});
    match permission {
        Permission::Public => described["security"] = json!([]),
        Permission::AtLeast(least) => {
            described["security"] = json!([{"bearer": []}]);
            described["responses"]["401"] = json!({"$ref": "#/components/responses/Problem"});
            if least > Role::User {
                described["responses"]["403"] = json!({"$ref": "#/components/responses/Problem"});
            }
        }
    }
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457)",
        "additionalProperties": true,
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {
                "type": "string",
                "description": "`about:blank`; for server failures `connection`, `authentication`, \
                    `timeout`, `execution` or `validation`",
            },
            "title": {"type": "string", "description": "The reason phrase of the status"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "code": {"type": "string", "description": "A stable identifier for programs"},
            "detail": {"type": "string", "description": "The cause and the fix"},
            "errors": {
                "type": "array",
                "description": "Errors in the body with their locations",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "Such as `#/name`"},
                        "detail": {"type": "string"},
                    },
                },
            },
        },
    })
}
