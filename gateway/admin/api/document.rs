//! The description of the API: the OpenAPI 3.1 document `openapi.json`, and the same as a page that
//! needs no script and no network. Tests write the document from the types.

use std::sync::LazyLock;

use askama::Template;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use lockgate_text::json;
use serde_json::Value;

/// The page may load nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Reads the document. Its paths are those of the router.
pub(crate) fn read() -> Value {
    let mut document = json::from_str(include_str!("openapi.json")).unwrap_or(Value::Null);
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document
}

/// The document as a list of operations with their parameters and responses.
#[derive(Template)]
#[template(path = "document.html")]
struct DocumentPage<'a> {
    document: &'a Value,
}

pub(crate) struct Document {
    pub(crate) text: String,
    /// The same in HTML.
    pub(crate) page: String,
}

/// The document as published, written when it is first requested.
pub(crate) static PUBLISHED: LazyLock<Document> = LazyLock::new(|| {
    let mut document = read();
    rename_wildcards(&mut document);
    let page = DocumentPage { document: &document }.render().unwrap_or_default();
    Document { page, text: document.to_string() }
});

pub(crate) async fn show_document() -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (head, &*PUBLISHED.text)
}

pub(crate) async fn show_page() -> impl IntoResponse {
    let head = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (head, &*PUBLISHED.page)
}

/// Renames parameters that match the rest of a path, which OpenAPI does not have.
fn rename_wildcards(document: &mut Value) {
    let Some(Value::Object(paths)) = document.get_mut("paths") else { return };
    let renamed = std::mem::take(paths).into_iter();
    *paths = renamed.map(|(path, item)| (path.replace("{*", "{"), item)).collect();
}

#[cfg(test)]
pub(crate) mod tests;
