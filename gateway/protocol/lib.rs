//! MCP on the wire: how messages of every revision look, read and written as bytes. No I/O, no clock, no state.

pub mod capabilities;
pub mod code;
pub mod jsonrpc;
pub mod list;
pub mod meta;
pub mod method;
pub mod revision;
pub mod scan;
pub mod write;
