//! A client of PostgreSQL's protocol, version 3, over a stream that the caller opened and secured.
//! Values are text. Every length is validated, and no message above the limits is buffered.

mod session;

pub use postgres_protocol::message::backend::{DataRowBody, Message, RowDescriptionBody};
pub use session::{ByteStream, Handle, Login, Session, WireError, read_texts, ssl_request};
