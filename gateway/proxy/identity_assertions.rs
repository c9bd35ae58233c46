//! Identity assertions for servers that require them: for a caller, according to its request's
//! credential, or for the gateway itself when it sends its own requests. They are signed with the
//! current keys, which may rotate.

use std::sync::Arc;

use http::HeaderValue;
use lockgate_authn::{Principal, Signer};
use lockgate_upstream::IdentityAssertion;

use crate::snapshot::Snapshot;

struct CallerAssertion {
    signer: Arc<Signer>,
    principal: Principal,
}

/// Signs assertions for the gateway itself.
pub struct GatewayAssertion(pub Arc<Signer>);

impl Snapshot {
    /// Returns the identity assertion for a caller, if any server requires assertions.
    pub(crate) fn assertion(&self, principal: &Principal) -> Option<Arc<dyn IdentityAssertion>> {
        let signer = Arc::clone(self.signer.as_ref()?);
        Some(Arc::new(CallerAssertion { signer, principal: principal.clone() }))
    }
}

impl IdentityAssertion for CallerAssertion {
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.signer.sign_caller(&self.principal, audience)
    }
}

impl IdentityAssertion for GatewayAssertion {
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.0.sign_own(audience)
    }
}
