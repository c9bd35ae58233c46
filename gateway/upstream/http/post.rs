//! What is posted to a server, and what comes back.

use std::sync::Arc;

use http::{HeaderMap, Request, StatusCode};
use lockgate_egress::Payload;
use lockgate_protocol::jsonrpc::Response;

use crate::call::{Conversation, ResponseSink};

/// One message to post.
pub(crate) struct Post<'a> {
    /// The id of the request in `message`; `None` for notifications and responses.
    pub(crate) id: Option<u64>,
    pub(crate) message: Box<Request<Payload>>,
    pub(crate) conversation: Option<&'a Arc<dyn Conversation>>,
    /// Takes the answer when it is large and comes in a plain body.
    pub(crate) sink: Option<&'a dyn ResponseSink>,
}

/// What came back for one POST.
pub(crate) struct Posted {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The response with our id, or an error without an id.
    pub(crate) response: Option<Response>,
}
