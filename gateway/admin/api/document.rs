//! The description of the API: OpenAPI 3.1, generated from the routes, and the same as a page that
//! needs no script and no network.

mod html;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use lockgate_authn::Role;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::access::Permission;
use super::state::{Document, Shared};
use super::table::Operation;

/// The reference to the schema of error bodies.
const PROBLEM: &str = "#/components/schemas/Problem";
/// The page may load nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

pub(crate) fn write(description: &OpenApi, operations: &[Operation]) -> Document {
    let document = describe(description, operations);
    Document { page: html::write_page(&document), text: document.to_string() }
}

/// The OpenAPI document of the API.
#[utoipa::path(get, path = "/openapi.json", tag = "api", responses((status = 200, body = Object)))]
pub(crate) async fn show_document(State(state): Shared) -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (head, state.document.text.clone())
}

/// This page.
#[utoipa::path(
    get,
    path = "/",
    tag = "api",
    responses((status = 200, content_type = "text/html", body = String))
)]
pub(crate) async fn show_page(State(state): Shared) -> impl IntoResponse {
    let head = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (head, state.document.page.clone())
}

/// Returns the whole document, with the permissions of the table of routes.
pub(crate) fn describe(description: &OpenApi, operations: &[Operation]) -> Value {
    let mut document = serde_json::to_value(description).unwrap_or(Value::Null);
    document["openapi"] = "3.1.0".into();
    document["info"] = json!({
        "title": "Lockgate",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "A gateway in front of many MCP servers. Errors are problem details (RFC \
            9457) with a stable code.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    });
    document["servers"] = json!([{"url": "/api"}]);
    for operation in operations {
        let item = document.pointer_mut("/paths").and_then(|all| all.get_mut(&operation.path));
        if let Some(described) = item.and_then(|item| item.get_mut(&operation.method)) {
            describe_operation(described, operation.permission);
        }
    }
    rename_wildcards(&mut document);
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

/// Renames parameters that match the rest of a path, which OpenAPI does not have.
fn rename_wildcards(document: &mut Value) {
    let Some(Value::Object(paths)) = document.get_mut("paths") else { return };
    let mut renamed = Map::new();
    for (path, item) in std::mem::take(paths) {
        renamed.insert(path.replace("{*", "{"), item);
    }
    *paths = renamed;
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
