//! Text formats shared by all layers: invisible characters, escapes, hexadecimal digits, dates,
//! names of organisations, PEM files, and unambiguous JSON. Each rule is implemented here once, so
//! that layers cannot differ. Independent of any protocol.

pub mod count;
pub mod date;
pub mod hex;
pub mod json;
pub mod list;
pub mod organisation;
pub mod pem;
pub mod percent;
pub mod unseen;
