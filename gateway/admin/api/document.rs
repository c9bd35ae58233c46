//! What the API says of itself: OpenAPI 3.1, made from the routes, and the same as a page for
//! people that needs no script and no network.

mod html;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use lockgate_authn::Role;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::access::Permission;
use super::state::{Document, Shared};
use super::table::Operation;

/// The page may show itself, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// The document and the page.
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

/// The whole document: what the routes say, and what the table says of them.
pub(crate) fn describe(description: &OpenApi, operations: &[Operation]) -> Value {
    let mut document = serde_json::to_value(description).unwrap_or(Value::Null);
    document["openapi"] = "3.1.0".into();
    document["info"] = json!({
        "title": "Lockgate",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "One gate in front of many MCP servers. Errors are problem details \
            (RFC 9457) with a code that does not change.",
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
    components["responses"] = json!({"Problem": {
        "description": "What went wrong",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }});
    components["schemas"]["Problem"] = problem_schema();
    document
}

fn describe_operation(described: &mut Value, permission: Permission) {
    described["x-permission"] = permission.as_str().into();
    if described["responses"].is_null() {
        described["responses"] = json!({});
    }
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

/// A parameter that takes the rest of a path is one like others to readers.
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
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {
                "type": "string",
                "description": "`about:blank`; of a server's failure `connection`, \
                    `authentication`, `timeout`, `execution` or `validation`",
            },
            "title": {"type": "string", "description": "The words of the status"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "code": {"type": "string", "description": "Does not change; for programs"},
            "detail": {"type": "string", "description": "What is wrong, and the way out"},
            "errors": {
                "type": "array",
                "description": "Mistakes in the body, each with its place",
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
