//! Rates that several gateways share, through Redis or Valkey. Requests are decided on here and
//! now, a little ahead of the store: what passes is reported behind them, and what comes back says
//! how many more may pass. It knows nothing of policies but their allowances.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start servers of their own"))]

mod config;
mod connection;
mod counts;
mod reply;
mod report;
mod shared;

pub use config::{Config, UrlError};
pub use shared::Shared;

#[cfg(test)]
mod tests;
