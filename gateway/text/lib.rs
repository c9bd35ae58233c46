//! What texts are made of, for every layer alike: characters that nobody sees, escapes, hexadecimal
//! digits, dates, names of organisations, files of PEM, and JSON that has one reading. A rule about
//! them stands here once, so that it cannot differ from place to place. It knows no protocol.

pub mod date;
pub mod hex;
pub mod json;
pub mod organisation;
pub mod pem;
pub mod percent;
pub mod unseen;
