//! Text formats shared by all layers: invisible characters, escapes, hexadecimal digits, dates,
//! names of organisations, PEM files, unambiguous JSON, and settings; and the classes of IP
//! addresses. Each rule is implemented here once, so that layers cannot differ. Independent of any
//! protocol.

pub mod address;
pub mod count;
pub mod date;
pub mod hex;
mod implement;
pub mod json;
pub mod list;
pub mod organisation;
pub mod pem;
pub mod percent;
pub mod setting;
pub mod unseen;
