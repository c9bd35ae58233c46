//! Sessions that begin and end, in the audit trail and the log. There is room for the record before
//! a session begins; one ends in any case.

use lockgate_authn::Principal;
use lockgate_proxy::Gateway;
use lockgate_telemetry::audit::{Change, ChangePlace};

/// Room for the record of one session's beginning or end.
pub struct SessionRecord(Option<ChangePlace>);

impl SessionRecord {
    /// `None` where nothing is to be done without a record, and there is no room for one.
    #[must_use]
    pub fn reserve(gateway: &Gateway) -> Option<Self> {
        gateway.reserve_change().ok().map(Self)
    }

    /// Somebody has a session now.
    pub fn signed_in(self, principal: &Principal) {
        self.write("sign in", principal);
    }

    /// Somebody has ended a session.
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
            organisation: Some(organisation),
            before: None,
            after: None,
        });
    }
}
