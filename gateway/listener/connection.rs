//! Connection tracking: state, deadlines, eviction when slots run out, and shutdown.
//!
//! Tasks record events of their connections in atomics, and one sweep per tick finds the
//! connections that are late. A request costs no timer, yet every phase (handshakes, a partial
//! header block, an idle or a blocked peer) is bounded.

mod eviction;
mod half_close;
mod io;
mod registry;
mod state;

pub(crate) use io::{HttpIo, MeteredSocket};
pub(crate) use registry::{Connections, Registration, run_connection};
pub(crate) use state::{ActiveRequest, CloseReason, ConnectionState};
