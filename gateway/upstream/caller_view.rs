//! A built-in server's view of a call's caller. Created by the request path: it exposes nothing
//! that policy hides, and reaches servers only through the same decision as the caller's own
//! requests.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::BoxFuture;
use crate::Upstream;
use crate::catalog::ListKind;

/// The identity of a caller, for servers at which callers have their own accounts.
#[derive(Clone, Copy)]
pub struct CallerIdentity<'a> {
    pub organisation: Option<&'a str>,
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The caller's access token, if servers require its exchange.
    pub access_token: Option<CallerToken<'a>>,
}

/// A caller's access token.
#[derive(Clone, Copy)]
pub struct CallerToken<'a> {
    pub text: &'a str,
    /// Identifies the token.
    pub digest: &'a [u8; 32],
    pub expires_at: SystemTime,
}

/// The caller's identity, and the servers and items visible to the caller.
pub trait CallerView: Send + Sync {
    /// Returns the issuer that authenticated the caller.
    fn issuer(&self) -> &str;

    /// Returns the caller's subject at the issuer.
    fn subject(&self) -> &str;

    /// Returns the caller's organisation, if any.
    fn organisation(&self) -> Option<&str>;

    /// Returns the caller's access token, if servers require its exchange.
    fn access_token(&self) -> Option<CallerToken<'_>> {
        None
    }

    /// Returns the identity for the caller's accounts.
    fn identity(&self) -> CallerIdentity<'_> {
        CallerIdentity {
            organisation: self.organisation(),
            issuer: self.issuer(),
            subject: self.subject(),
            access_token: self.access_token(),
        }
    }

    /// Reports whether the caller is an operator of the gateway.
    fn is_operator(&self) -> bool {
        false
    }

    /// Returns the servers visible at the caller's endpoint.
    fn servers(&self) -> Vec<Arc<dyn Upstream>>;

    /// Reports whether most recent calls of a server failed.
    fn calls_fail(&self, server: &dyn Upstream) -> bool;

    /// Returns the items of a list as exposed to the caller.
    fn items(&self, kind: ListKind) -> Vec<VisibleItem>;

    /// Sends `resources/read` on behalf of the caller. Returns the JSON text of the result, or a
    /// message for the caller.
    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// A list item as exposed to a caller.
#[derive(Clone, Debug)]
pub struct VisibleItem {
    /// The server of the item.
    pub slug: Arc<str>,
    /// Its name or URI at the caller's endpoint.
    pub exposed: Arc<str>,
    /// The server's own definition: JSON text of an object.
    pub text: Bytes,
}
