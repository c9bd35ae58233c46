//! The description of the API: the OpenAPI 3.1 document `openapi.json`, and the same as a page that
//! needs no script and no network. Tests write the document from the types.

mod html;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use super::state::{Document, Shared};

/// The page may load nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Reads the document. Its paths are those of the router.
pub(crate) fn read() -> Value {
    let mut document = serde_json::from_str(include_str!("openapi.json")).unwrap_or(Value::Null);
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document
}

/// Returns the document as published.
pub(crate) fn write(mut document: Value) -> Document {
    rename_wildcards(&mut document);
    Document { page: html::write_page(&document), text: document.to_string() }
}

/// The OpenAPI document of the API.
#[cfg_attr(test, utoipa::path(
    get, path = "/openapi.json", tag = "api", responses((status = 200, body = Object)),
))]
pub(crate) async fn show_document(State(state): Shared) -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (head, state.document.text.clone())
}

/// This page.
#[cfg_attr(test, utoipa::path(
    get, path = "/", tag = "api",
    responses((status = 200, content_type = "text/html", body = String)),
))]
pub(crate) async fn show_page(State(state): Shared) -> impl IntoResponse {
    let head = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (head, state.document.page.clone())
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

#[cfg(test)]
mod tests;
