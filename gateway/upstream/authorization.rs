//! The credential of a server's requests, where it changes while the gateway runs: a token of the
//! gateway, or of the user that the client serves. It is sent in `Authorization` alone, to the
//! server's origin alone.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::BoxFuture;

/// A credential at a server.
pub trait Authorization: Send + Sync + 'static {
    /// Returns the name of the header.
    fn name(&self) -> HeaderName;

    /// Returns the current value of the header; `None` without one. No I/O.
    fn header(&self) -> Option<HeaderValue>;

    /// Waits until the credential can be used, or returns why it cannot.
    fn prepare(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Records the headers of a response with status 401 or 403.
    fn note_refusal(&self, status: StatusCode, headers: &HeaderMap);

    /// Replaces a value that the server rejected. Returns whether there is another.
    fn renew(&self, rejected: Option<HeaderValue>) -> BoxFuture<'_, bool>;
}
