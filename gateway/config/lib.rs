//! Configuration: turns defaults, files, environment and flags into a validated [`Config`], or a
//! [`Report`] of all mistakes. Starts nothing, and reads only the environment passed by the caller.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and sockets")
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod draft;
mod effective;
mod expand;
mod import;
pub mod keys;
mod load;
mod loaded;
mod overlap;
pub mod policies;
mod problem;
mod raw;
mod schema;
mod source;
mod suggest;
mod validate;

pub use draft::{Draft, RequiredVariable, draft, has_servers};
pub use effective::{Effective, Setting, effective};
pub use load::{RunningAddresses, find_addresses, load};
pub use loaded::{Config, Flags, Loaded, Sources, Transport};
pub use problem::{Problem, Report, Severity, ValuePlace};
pub use schema::schema;
pub use validate::decode_webhook_secret;

#[cfg(test)]
mod tests;
