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

mod described;

pub(crate) use described::describe_types;
use described::{Types, json_content};

/// The reference to the schema of error bodies.
const PROBLEM: &str = "#/components/schemas/Problem";
/// The methods of a path, in the order of the document.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
/// Lists with the parameters of their filter before those of the page.
const FILTER_FIRST: [&str; 4] =
    ["list_agents", "list_assigned", "list_available", "list_integrations"];

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

/// A row of the table of operations.
pub(crate) struct Operation {
    pub(crate) tag: &'static str,
    pub(crate) scope: &'static str,
    /// The lines of its description.
    pub(crate) words: &'static [&'static str],
    pub(crate) permission: Permission,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) responses: &'static [(u16, &'static str)],
    pub(crate) describe_types: fn(&mut Types),
}

/// Describes an operation whose types are not those of the document.
fn describe_raw(id: &str, types: &mut Types) {
    let object = json_content(&json!({"type": "object"}));
    types.result = match id {
        "show_page" => json!({"text/html": {"schema": {"type": "string"}}}),
        _ => object.clone(),
    };
    if id == "call_method" {
        let words = "The parameters, without `_meta`";
        types.body = Some(json!({"description": words, "content": object}));
        types.parameters.push(json!({
            "name": "method",
            "in": "path",
            "description": "Such as `tools/call`",
            "required": true,
            "schema": {"type": "string"},
        }));
    }
}

impl Operation {
    /// Returns the description of the operation, and adds the schemas of its types.
    fn describe(&self, schemas: &mut BTreeMap<String, Value>) -> Value {
        let mut types = Types::default();
        (self.describe_types)(&mut types);
        if self.kind == "raw" {
            describe_raw(self.id, &mut types);
        }
        schemas.append(&mut types.schemas);
        let lines: Vec<&str> = self.words.iter().map(|line| line.trim()).collect();
        let words = lines.join("\n");
        let (summary, more) = words.split_once("\n\n").unwrap_or((&words, ""));
        let mut described = json!({"tags": [self.tag], "summary": summary});
        if !more.is_empty() {
            described["description"] = more.into();
        }
        described["operationId"] = self.id.into();
        if FILTER_FIRST.contains(&self.id) {
            types.parameters.rotate_left(2);
        }
        self.add_conditions(&mut types.parameters);
        if !types.parameters.is_empty() {
            described["parameters"] = types.parameters.into();
        }
        if let Some(body) = types.body {
            described["requestBody"] = body;
        }
        described["responses"] = self.list_responses(&types.result);
        add_parameters(&mut described, self.path);
        add_responses(&mut described, self.path);
        describe_operation(&mut described, self.permission);
        described
    }

    /// Adds the parameters that are not read by the function itself.
    fn add_conditions(&self, parameters: &mut Vec<Value>) {
        let is_versioned = self.kind == "versioned";
        let is_repeatable = is_versioned || self.kind == "repeatable";
        if is_repeatable || self.kind == "changing" {
            parameters.push(json!({
                "name": "dryRun",
                "in": "query",
                "description": "Return the result of the change and the affected agents, without \
                    making the change.",
                "required": false,
                "schema": {"type": "boolean"},
            }));
        }
        if self.scope == "organisation" {
            parameters.push(json!({
                "name": "organizationId",
                "in": "query",
                "description": "For operators: an organisation other than their own.",
                "required": false,
                "schema": {"type": "string", "maxLength": 256},
            }));
        }
        if is_versioned {
            parameters.push(json!({
                "name": "If-Match",
                "in": "header",
                "description": "The `ETag` of the version to change; 412 if there is a newer \
                    version.",
                "required": false,
                "schema": {"type": ["string", "null"], "pattern": r#"^(\*|"[0-9]{1,18}")$"#},
            }));
        }
        if is_repeatable {
            parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "description": "A repeated request with the same key within a day returns the \
                    first response, and the change\nis not made again.",
                "required": false,
                "schema": {
                    "type": ["string", "null"],
                    "maxLength": 255,
                    "minLength": 1,
                    "pattern": "^[!-~]+$",
                },
            }));
        }
    }

    /// Returns the responses of the table, and that with the function's result.
    fn list_responses(&self, result: &Value) -> Value {
        let mut all = BTreeMap::new();
        for (status, words) in self.responses {
            let mut response = json!({});
            if !words.is_empty() {
                response["description"] = (*words).into();
            }
            if *status < 300 && *status != 204 {
                response["content"] = result.clone();
            }
            all.insert(status.to_string(), response);
        }
        if all.contains_key("204") {
            all.insert("200".into(), json!({"description": "`dryRun`", "content": result}));
        } else if self.responses.iter().all(|(status, _)| *status >= 300) {
            all.insert("200".into(), json!({"content": result}));
        }
        json!(all)
    }
}

/// Returns the whole document.
fn describe() -> Value {
    let mut items: BTreeMap<&str, BTreeMap<usize, Value>> = BTreeMap::new();
    let mut schemas = BTreeMap::new();
    let table = routes::describe();
    for operation in &table {
        let place = METHODS.iter().position(|method| *method == operation.method).unwrap();
        let described = operation.describe(&mut schemas);
        items.entry(operation.path).or_default().insert(place, described);
    }
    let mut paths = json!({});
    for (path, item) in items {
        for (place, described) in item {
            paths[path][METHODS[place]] = described;
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lockgate",
            "description": "A gateway in front of many MCP servers. Errors are problem details \
                (RFC 9457) with a stable code.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {"description": "Error", "content": problem_content()}},
        },
        "servers": [{"url": "/api"}],
    });
    document["components"]["schemas"]["Problem"] = problem_schema();
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
