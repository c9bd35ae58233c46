//! Connections: what is known of each, which of them are late, which go when slots run out, and how
//! they end at shutdown.
//!
//! Tasks note what happens to their connections in plain atomics; one sweep per tick looks for
//! those that are late. So a request costs no timer, and every phase (handshakes, half a header
//! block, an idle or a blocked peer) is bounded.

mod content_length;
mod eviction;
mod half_close;
mod io;
mod registry;
mod state;

pub(crate) use io::{HttpIo, MeteredSocket};
pub(crate) use registry::{Connections, Registration, run_connection};
pub(crate) use state::{ActiveRequest, CloseReason, ConnectionState};
