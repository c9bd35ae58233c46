//! Cancellation of abandoned calls at legacy servers over HTTP, which need a notification.

use std::sync::Arc;

use lockgate_protocol::outbound;

use crate::http::HttpTransport;
use crate::identity_assertion::IdentityAssertion;

/// Sends a cancellation to a legacy server on drop.
pub(super) struct CancelOnDrop<'a> {
    /// `None` once the answer has arrived.
    pub(super) transport: Option<&'a Arc<HttpTransport>>,
    pub(super) id: u64,
    /// The identity of the caller that gave up.
    pub(super) assertion: Option<&'a Arc<dyn IdentityAssertion>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(transport) = self.transport
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let text = outbound::cancelled(
                self.id.to_string().as_bytes(),
                "the caller is no longer waiting",
            );
            transport.notify(text.into(), self.assertion.map(|assertion| &**assertion));
        }
    }
}
