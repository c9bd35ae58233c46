//! Who may hold what, and for how long: the primitives that bound places and bytes for every layer. They know nothing of
//! requests, servers or the protocol.

pub mod budget;
