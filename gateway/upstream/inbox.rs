//! The receiving interface of a connection, for any transport and era.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::Request;

use crate::BoxFuture;
use crate::call::ClientChannel;

/// Receives unsolicited messages of a server on a connection. None of its methods waits.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// Receives a notification that belongs to no running call (progress of a running call goes to
    /// its client channel). `running` is the client channel of the call in flight, if there is
    /// exactly one.
    fn notification(&self, note: Request, running: Option<Arc<dyn ClientChannel>>);

    /// Receives a request of the server and returns the response as JSON text. `running` as above.
    fn question(
        &self,
        question: Request,
        running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes>;

    /// Reports whether the server's requests are answered: modern servers have none.
    fn answers(&self) -> bool {
        true
    }

    /// Records that bytes of the server have arrived.
    fn heard(&self) {}

    /// Reports the end of the connection; called once, with the reason.
    fn closed(&self, words: String);
}
