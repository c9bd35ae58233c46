//! What is posted to a server, and what comes back.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use lockgate_egress::Payload;
use lockgate_protocol::jsonrpc::Response;
use lockgate_protocol::outbound;

use super::{Extra, HttpTransport};
use crate::call::{ClientChannel, ResponseSink};
use crate::voucher::Voucher;

/// One message to post.
pub(crate) struct Post<'a> {
    /// The id of the request in `message`; `None` for notifications and responses.
    pub(crate) id: Option<u64>,
    pub(crate) message: Box<Request<Payload>>,
    pub(crate) channel: Option<&'a Arc<dyn ClientChannel>>,
    /// Takes the answer when it is large and comes in a plain body.
    pub(crate) sink: Option<&'a dyn ResponseSink>,
    /// For whom it is; without it for whose the connection is.
    pub(crate) voucher: Option<&'a dyn Voucher>,
}

impl Post<'_> {
    /// A message that nobody answers.
    pub(crate) fn note(message: Box<Request<Payload>>) -> Self {
        Self { id: None, message, channel: None, sink: None, voucher: None }
    }
}

/// What came back for one POST.
pub(crate) struct Posted {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The response with our id, or an error without an id.
    pub(crate) response: Option<Response>,
}

impl HttpTransport {
    /// Posts a notification in the background, for a caller or else for whose the connection is.
    pub(crate) fn notify(self: &Arc<Self>, text: Bytes, voucher: Option<&dyn Voucher>) {
        let transport = Arc::clone(self);
        let message = self.message(Extra::new(), outbound::whole(text), voucher);
        tokio::spawn(async move {
            if let Err(failure) = transport.post(Post::note(message)).await {
                tracing::debug!(%failure, "a notification did not reach the server");
            }
        });
    }
}
