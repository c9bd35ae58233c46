//! Audit and log records of sign-in and sign-out. A session starts only if its record can be
//! stored, but ends in any case.

use lockgate_authn::Principal;
use lockgate_proxy::Gateway;
use lockgate_telemetry::audit::{Change, ChangePlace};

/// A reserved audit record for the start or end of a session.
pub struct SessionRecord(Option<ChangePlace>);

impl SessionRecord {
    /// Reserves a record. Returns `None` if auditing is mandatory and the trail is full.
    #[must_use]
    pub fn reserve(gateway: &Gateway) -> Option<Self> {
        gateway.reserve_change().ok().map(Self)
    }

    /// Records a sign-in.
    pub fn signed_in(self, principal: &Principal) {
        self.write("sign in", principal);
    }

    /// Records a sign-out.
    pub fn signed_out(self, principal: &Principal) {
        self.write("sign out", principal);
    }

    fn write(self, action: &'static str, principal: &Principal) {
        let who = format!("{}|{}", principal.issuer, principal.subject);
        let organisation = principal.organisation();
        tracing::info!(target: "audit", action, who, organisation, "changed");
        let Some(place) = self.0 else { return };
        place.record(&Change {
            action,
            issuer: &principal.issuer,
            subject: &principal.subject,
            key: principal.key_name.as_deref(),
            organisation: Some(organisation),
            before: None,
            after: None,
        });
    }
}
