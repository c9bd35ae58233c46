//! HTTP of both eras, HTTP+SSE, stdio and TLS. Passes each exchange to a handler and writes its
//! reply.
//!
//! It bounds connections and rejects unauthenticated callers, but makes no MCP decisions.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and sockets")
)]

mod client_address;
mod config;
mod connection;
mod context;
mod error;
mod exchange;
mod gateway_handler;
mod http;
mod incoming_body;
mod origin_check;
mod request_body;
mod request_headers;
mod response_body;
mod session_client;
mod slots;
mod sse;
mod stdio;
mod tls;

#[cfg(test)]
mod tests;

pub use client_address::{ForwardedHeader, TrustedProxies};
pub use config::{Audience, ClientAuth, Config, HttpSettings, Tls};
pub use context::{Fallback, Remote, fallback};
pub use gateway_handler::{DescribeRejection, GatewayHandler};
pub use http::{BindError, Drain, Server, start_operators};
pub use incoming_body::IncomingBody;
pub use response_body::FallbackBody;
pub use stdio::{Stdio, serve_stdio};
pub use tls::{CertificateExpiry, ServerCertificate, TlsError};
