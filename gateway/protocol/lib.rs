//! The wire format of MCP: parses and writes messages of every revision as bytes. No I/O, no clock,
//! no state.

pub mod capabilities;
pub mod code;
pub mod header;
pub mod jsonrpc;
pub mod key;
pub mod legacy;
pub mod list;
pub mod meta;
pub mod method;
pub mod modern;
pub mod name;
pub mod outbound;
pub mod question;
pub mod revision;
pub mod scan;
pub mod sealed;
pub mod sse;
pub mod strings;
pub mod uri;
pub mod write;
