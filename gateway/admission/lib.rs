//! Primitives that bound concurrency and memory for every layer, independent of requests, servers
//! and the protocol.

pub mod budget;
mod caller_id;
pub mod clock;
mod concurrency;
mod cpu_pool;
pub mod future_pool;
mod pool;
pub mod reader;

pub use crate::pool::Membership;
pub use budget::Waits;
pub use caller_id::{CallerId, Role};
pub use concurrency::{Bounds, Charge, ConcurrencyError, ConcurrencyLimit, Permit, Promise};
pub use cpu_pool::{CpuPool, Turn, spawn};
pub use pool::{Pool, Pools};
