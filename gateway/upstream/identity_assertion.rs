//! Identity assertions: HTTP servers that require them receive the requester's identity with every
//! request, in a verifiable header. An assertion is never sent to another server and never logged.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::BoxFuture;
use crate::failure::UpstreamError;

/// The header with the identity assertion. Only the gateway sets it.
pub const IDENTITY_HEADER: &str = "lockgate-identity";

/// Asserts the identity of a caller, or of the gateway itself.
pub trait IdentityAssertion: Send + Sync + 'static {
    /// Returns a signed assertion for this audience alone, valid for at most a minute; `None` if
    /// the gateway has no key (any more). A server has to refuse a request without an assertion.
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue>;
}

/// The headers of a connection that are made for each request: an identity assertion, a credential
/// that may change, or both.
#[derive(Clone)]
pub(crate) struct Identification {
    pub(crate) identity: Option<OwnIdentity>,
    pub(crate) authorization: Option<Arc<dyn Authorization>>,
}

/// The identity assertions on a connection to a server that requires them.
#[derive(Clone)]
pub(crate) struct OwnIdentity {
    pub(crate) audience: Arc<str>,
    /// The connection's owner: a client, or the gateway itself on a shared connection.
    pub(crate) owner: Arc<dyn IdentityAssertion>,
}

impl Identification {
    /// Adds the headers on behalf of the caller, or of the connection's owner.
    pub(crate) fn add(&self, headers: &mut HeaderMap, caller: Option<&dyn IdentityAssertion>) {
        static NAME: HeaderName = HeaderName::from_static(IDENTITY_HEADER);
        if let Some(mut value) = self.sign(caller) {
            value.set_sensitive(true);
            headers.insert(NAME.clone(), value);
        }
        if let Some((name, value)) = self.authorize() {
            headers.insert(name.clone(), value);
        }
    }

    /// Returns the value of the header with the identity.
    pub(crate) fn sign(&self, caller: Option<&dyn IdentityAssertion>) -> Option<HeaderValue> {
        let identity = self.identity.as_ref()?;
        caller.unwrap_or(&*identity.owner).sign_for(&identity.audience)
    }

    /// Returns the header with the credential.
    pub(crate) fn authorize(&self) -> Option<(&HeaderName, HeaderValue)> {
        let authorization = self.authorization.as_ref()?;
        let value = authorization.ready_header().or_else(|| authorization.header())?;
        Some((authorization.name(), value))
    }

    /// Records a refusal of the credential.
    pub(crate) fn note_refusal(&self, status: StatusCode, headers: &HeaderMap) {
        if let (401 | 403, Some(authorization)) = (status.as_u16(), &self.authorization) {
            authorization.note_refusal(status, headers);
        }
    }
}

// The credential of a server's requests, where it changes while the gateway runs: a token of the
// gateway, or of the user that the client serves. It is sent in `Authorization` alone, to the
// server's origin alone.

/// A credential at a server.
pub trait Authorization: Send + Sync + 'static {
    /// Returns the name of the header.
    fn name(&self) -> &HeaderName;

    /// Returns the current value of the header; `None` without one. No I/O.
    fn header(&self) -> Option<HeaderValue>;

    /// Returns the same if it can be used. Starts its renewal if it expires soon. No I/O.
    fn ready_header(&self) -> Option<HeaderValue>;

    /// Waits until the credential can be used, or returns why it cannot.
    fn prepare(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Records the headers of a response with status 401 or 403.
    fn note_refusal(&self, status: StatusCode, headers: &HeaderMap);

    /// Replaces a value that the server rejected. Returns whether there is another.
    fn renew(&self, rejected: Option<HeaderValue>) -> BoxFuture<'_, bool>;

    /// Returns the caller's error after a failure for lack of a usable credential.
    fn explain(&self, failure: UpstreamError) -> BoxFuture<'_, UpstreamError> {
        Box::pin(std::future::ready(failure))
    }
}
