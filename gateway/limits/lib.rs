//! Rate limits shared by several gateways through Redis or Valkey. Requests are decided locally and
//! slightly ahead of the store: usage is reported afterwards, and the reply bounds the following
//! requests. Depends on policy allowances only.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start servers of their own"))]

mod config;
mod connection;
mod counts;
mod report;
mod shared;

pub use config::{Config, UrlError};
pub use shared::Shared;

#[cfg(test)]
mod tests;
