//! What a connection to a server gives and takes, whatever bytes carry it. It knows no era.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::Request;

use crate::call::ClientChannel;
use crate::future::BoxFuture;

/// Takes what a server sends on its own over one connection. None of its methods waits.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// A notification that belongs to no running call (progress of a running call goes to its
    /// client channel). `running` is the client channel of the only call in flight, when there is
    /// exactly one.
    fn notification(&self, note: Request, running: Option<Arc<dyn ClientChannel>>);

    /// A request of the server. Gives the response to send back as JSON text. `running` as above.
    fn question(
        &self,
        question: Request,
        running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes>;

    /// Whether the server's requests are answered: in the modern era servers have none.
    fn answers(&self) -> bool {
        true
    }

    /// Bytes of the server have come in, whatever they mean.
    fn heard(&self) {}

    /// The connection is over and nothing more will come; called once, with words for a person.
    fn closed(&self, words: String);
}
