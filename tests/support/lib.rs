//! The fixture: an MCP server that is not ours, in the sense that matters: it is built on the
//! official Rust SDK, so it disagrees with the gateway wherever the gateway is wrong. It offers
//! everything that the official conformance suite calls by name, in the legacy era, the modern era
//! or both. It knows nothing of the gateway and shares no code with it.

#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated in 2026-07-28 and still served"
)]

mod call;
mod completion;
mod era;
mod fixture;
mod http;
mod prompts;
mod resources;
mod shared;
mod sse;
mod tools;

pub use era::Era;
pub use fixture::Fixture;
pub use http::{HttpFixture, serve_http};
pub use sse::serve_sse;
