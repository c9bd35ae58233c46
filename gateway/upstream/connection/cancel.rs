//! Calls at legacy servers over HTTP that nobody waits for any more: the server has to be told.

use std::sync::Arc;

use lockgate_protocol::outbound;

use crate::http::HttpTransport;
use crate::voucher::Voucher;

/// Tells a legacy server that nobody waits for its answer any more.
pub(super) struct CancelOnDrop<'a> {
    /// Gone once the answer is there.
    pub(super) transport: Option<&'a Arc<HttpTransport>>,
    pub(super) id: u64,
    /// Who waits no more.
    pub(super) voucher: Option<&'a Arc<dyn Voucher>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(transport) = self.transport
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let text = outbound::cancelled(
                self.id.to_string().as_bytes(),
                "the caller does not wait any more",
            );
            transport.notify(text.into(), self.voucher.map(|voucher| &**voucher));
        }
    }
}
