//! The REST API under `/api`, for applications, operators and the console. Every route has a
//! permission in one table (`routes`), and the document that describes them is made from the same
//! table. Who calls was found out before; what is called goes through the request path of MCP.

mod access;
mod body;
mod call;
mod document;
mod events;
mod failure;
mod guard;
mod keys;
mod mcp;
mod page;
mod pins;
mod policies;
mod problem;
mod query;
mod routes;
mod servers;
mod state;
mod table;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::Response;
use lockgate_proxy::Gateway;

pub use state::Operations;

/// Every route of the API, for requests that carry their caller as an extension, unless
/// [`is_public`].
pub fn api_router(gateway: Arc<Gateway>, operations: Arc<dyn Operations>) -> Router {
    routes::make_router(gateway, operations)
}

/// Whether anybody may ask for a path: it shows what the API is, and nothing of this gateway.
#[must_use]
pub fn is_public(path: &str) -> bool {
    matches!(path, "/api" | "/api/openapi.json")
}

/// The answer to somebody who was not let in, or whose body was not taken, in the form of the API.
#[must_use]
pub fn describe_refusal(answer: &Response<Bytes>) -> axum::response::Response {
    guard::describe_refusal(answer)
}

#[cfg(test)]
mod tests;
