//! The request path: who calls, may they, which server, and the answer in the client's era. No sockets, no files.

mod config;
pub mod face;

pub use config::{Config, Limits, Names};
