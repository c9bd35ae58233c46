//! The description of the API: the OpenAPI 3.1 document `openapi.json`, and the same as a page that
//! needs no script and no network. Tests write the document from the types.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde_json::{Map, Value};

/// The page may load nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Reads the document. Its paths are those of the router.
pub(crate) fn read() -> Value {
    let mut document = serde_json::from_str(include_str!("openapi.json")).unwrap_or(Value::Null);
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document
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
    Document { page: write_page(&document), text: document.to_string() }
});

/// The OpenAPI document of the API.
#[cfg_attr(test, utoipa::path(
    get, path = "/openapi.json", tag = "api", responses((status = 200, body = Object)),
))]
pub(crate) async fn show_document() -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (head, &*PUBLISHED.text)
}

/// This page.
#[cfg_attr(test, utoipa::path(
    get, path = "/", tag = "api",
    responses((status = 200, content_type = "text/html", body = String)),
))]
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
    let mut renamed = Map::new();
    for (path, item) in std::mem::take(paths) {
        renamed.insert(path.replace("{*", "{"), item);
    }
    *paths = renamed;
}

// The OpenAPI document as a page: a list of operations with their parameters and responses.
// Generated once, from the document only, with all text escaped.

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;\
    padding:0 1rem;color:#1b1b1b;background:#fff}code,pre{font:14px/1.45 ui-monospace,monospace}\
    pre{background:#f4f4f4;padding:.75rem;overflow:auto}details{border-top:1px solid #ddd;\
    padding:.5rem 0}summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem}\
    .role{color:#555;float:right}@media(prefers-color-scheme:dark){body{color:#eee;background:#111}\
    pre{background:#222}details{border-color:#333}.role{color:#aaa}}";

fn write_page(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width\"><title>Lockgate API</title>",
    );
    let info = &document["info"];
    let _ = write!(
        page,
        "<style>{STYLE}</style></head><body><h1>Lockgate API</h1><p>{}</p>\
            <p>Version {}. For programs: <a href=\"/api/openapi.json\">openapi.json</a>.</p>",
        escape(read_text(info, "description")),
        escape(read_text(info, "version")),
    );
    if let Some(Value::Object(paths)) = document.get("paths") {
        for (path, item) in paths {
            write_path(&mut page, path, item);
        }
    }
    page.push_str("<h2>Schemas</h2>");
    if let Some(Value::Object(schemas)) = document.pointer("/components/schemas") {
        for (name, schema) in schemas {
            write_schema(&mut page, name, schema);
        }
    }
    page.push_str("</body></html>");
    page
}

fn write_path(page: &mut String, path: &str, item: &Value) {
    let Value::Object(operations) = item else { return };
    for (method, operation) in operations {
        write_operation(page, path, method, operation);
    }
}

fn write_schema(page: &mut String, name: &str, schema: &Value) {
    let name = escape(name);
    let text = escape(&format!("{schema:#}"));
    let _ =
        write!(page, "<details id=\"{name}\"><summary>{name}</summary><pre>{text}</pre></details>");
}

fn write_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details><summary><b>{}</b> <code>/api{}</code> {} <span class=\"role\">{}</span>\
            </summary><p>{}</p>",
        escape(&method.to_uppercase()),
        escape(path.trim_end_matches('/')),
        escape(read_text(operation, "summary")),
        escape(read_text(operation, "x-permission")),
        escape(read_text(operation, "description")),
    );
    for name in ["parameters", "requestBody", "responses"] {
        if let Some(part) = operation.get(name) {
            let part = escape(&format!("{part:#}"));
            let _ = write!(page, "<p>{name}</p><pre>{part}</pre>");
        }
    }
    page.push_str("</details>");
}

fn read_text<'a>(of: &'a Value, name: &str) -> &'a str {
    match of.get(name) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
