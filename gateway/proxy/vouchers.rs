//! Who vouches for whom at servers that want to know: for a caller by the credential of its
//! request, for the gateway itself where it asks on its own. Keys may change meanwhile; what is
//! signed is signed with those of now.

use std::sync::Arc;

use http::HeaderValue;
use lockgate_authn::{Principal, Signer};
use lockgate_upstream::Voucher;

use crate::snapshot::Snapshot;

/// Vouches for one caller.
struct CallerVoucher {
    signer: Arc<Signer>,
    principal: Principal,
}

/// Vouches for the gateway itself.
pub struct GatewayVoucher(pub Arc<Signer>);

impl Snapshot {
    /// Vouches for a caller, where any server wants to know.
    pub(crate) fn voucher(&self, principal: &Principal) -> Option<Arc<dyn Voucher>> {
        let signer = Arc::clone(self.signer.as_ref()?);
        Some(Arc::new(CallerVoucher { signer, principal: principal.clone() }))
    }
}

impl Voucher for CallerVoucher {
    fn vouch(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.signer.sign_caller(&self.principal, audience)
    }
}

impl Voucher for GatewayVoucher {
    fn vouch(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        self.0.sign_own(audience)
    }
}
