//! Identity assertions: HTTP servers that require them receive the requester's identity with every
//! request, in a verifiable header. An assertion is never sent to another server and never logged.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the identity assertion. Only the gateway sets it.
pub const IDENTITY_HEADER: &str = "lockgate-identity";

/// Asserts the identity of a caller, or of the gateway itself.
pub trait IdentityAssertion: Send + Sync + 'static {
    /// Returns a signed assertion for this audience alone, valid for at most a minute; `None` if
    /// the gateway has no key (any more). A server has to refuse a request without an assertion.
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue>;
}

/// The identity assertions on a connection to a server that requires them.
#[derive(Clone)]
pub(crate) struct Identification {
    pub(crate) audience: Arc<str>,
    /// The connection's owner: a client, or the gateway itself on a shared connection.
    pub(crate) owner: Arc<dyn IdentityAssertion>,
}

impl Identification {
    /// Adds the header on behalf of the caller, or of the connection's owner.
    pub(crate) fn add(&self, headers: &mut HeaderMap, caller: Option<&dyn IdentityAssertion>) {
        static NAME: HeaderName = HeaderName::from_static(IDENTITY_HEADER);
        if let Some(mut value) = self.sign(caller) {
            value.set_sensitive(true);
            headers.insert(NAME.clone(), value);
        }
    }

    /// Returns the value of the header.
    pub(crate) fn sign(&self, caller: Option<&dyn IdentityAssertion>) -> Option<HeaderValue> {
        caller.unwrap_or(&*self.owner).sign_for(&self.audience)
    }
}
