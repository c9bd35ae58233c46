//! The fixture: an MCP server built on the official Rust SDK, independent of the gateway's code, so
//! that errors of the gateway surface as disagreements. It offers all tools, prompts and resources
//! that the official conformance suite uses, in the legacy era, the modern era or both.

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
mod skills;
mod sse;
mod tools;

pub use era::Era;
pub use fixture::Fixture;
pub use http::{HttpFixture, serve_http};
pub use sse::serve_sse;
