//! Primitives that bound concurrency and memory for every layer, independent of requests, servers
//! and the protocol.

mod apart;
pub mod budget;
pub mod buffer;
mod caller_id;
mod concurrency;
mod hungry;
mod member;
mod pool;
pub mod reader;
mod readers;

pub use apart::{Apart, Turn};
pub use caller_id::CallerId;
pub use concurrency::{Bounds, Charge, ConcurrencyError, ConcurrencyLimit, Permit, Promise};
pub use member::Membership;
pub use pool::{Pool, Pools};
