//! What a built-in server may know of the caller of one call, and see with the caller's eyes. The
//! request path makes it; it gives nothing that policy hides, and reaches servers only through the
//! same decision as the caller's own requests.

use std::sync::Arc;

use bytes::Bytes;

use crate::Upstream;
use crate::catalog::Kind;
use crate::future::BoxFuture;

/// See the module.
pub trait CallerView: Send + Sync {
    /// Who authenticated the caller.
    fn issuer(&self) -> &str;

    /// Who the caller is to the issuer.
    fn subject(&self) -> &str;

    /// The caller's organisation, if it has one.
    fn organisation(&self) -> Option<&str>;

    /// Whether the caller runs the gateway.
    fn is_operator(&self) -> bool {
        false
    }

    /// The servers that the caller can see at its endpoint.
    fn servers(&self) -> Vec<Arc<dyn Upstream>>;

    /// The items of one list as the caller sees them.
    fn items(&self, kind: Kind) -> Vec<VisibleItem>;

    /// `resources/read` in the caller's name: JSON text of the result, or words for the caller.
    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// One item of a list as a caller sees it.
#[derive(Clone, Debug)]
pub struct VisibleItem {
    /// The server it is from.
    pub slug: Arc<str>,
    /// Its name or URI at the caller's endpoint.
    pub exposed: Arc<str>,
    /// The item in the server's own words: JSON text of an object.
    pub text: Bytes,
}
