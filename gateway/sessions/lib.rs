//! The client edge for sessions: legacy clients over Streamable HTTP, HTTP+SSE and stdio. A session
//! is an entry of a table that is notified of changes, and its requests become requests of the
//! gateway. Opens no sockets or files.

mod call;
mod edge;
mod initialize;
mod notify;
mod receive;
mod request;
mod session;
mod stream;
mod subscribe;

#[cfg(test)]
mod tests;

pub use edge::Edge;
