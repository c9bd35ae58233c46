//! A POST to a server and its result.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_egress::PostRequest;
use lockgate_protocol::jsonrpc::Response;

use super::HttpTransport;
use crate::call::{ClientChannel, ResponseSink};
use crate::identity_assertion::IdentityAssertion;

pub(crate) struct Post<'a> {
    /// The id of the request in `message`; `None` for notifications and responses.
    pub(crate) id: Option<u64>,
    pub(crate) message: PostRequest,
    pub(crate) channel: Option<&'a Arc<dyn ClientChannel>>,
    /// Receives a large answer in a plain body.
    pub(crate) sink: Option<&'a dyn ResponseSink>,
    /// The requester's identity; `None` for the connection's owner.
    pub(crate) assertion: Option<&'a dyn IdentityAssertion>,
    /// Whether the headers of a response with status 200 are needed.
    pub(crate) keeps_headers: bool,
}

impl Post<'_> {
    /// Creates the POST of a message without a response.
    pub(crate) fn note(message: PostRequest) -> Self {
        Self { id: None, message, channel: None, sink: None, assertion: None, keeps_headers: false }
    }
}

pub(crate) struct Posted {
    pub(crate) status: StatusCode,
    /// `None` for status 200, unless requested.
    pub(crate) headers: Option<Box<HeaderMap>>,
    /// The response with the request's id, or an error without an id.
    pub(crate) response: Option<Response>,
}

impl Posted {
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.as_ref()?.get(name)
    }
}

impl HttpTransport {
    /// Posts a notification in the background, on behalf of the caller, or of the connection's
    /// owner.
    pub(crate) fn notify(self: &Arc<Self>, text: Bytes, assertion: Option<&dyn IdentityAssertion>) {
        let transport = Arc::clone(self);
        let message = self.message(text, assertion);
        tokio::spawn(async move {
            if let Err(failure) = transport.post(Post::note(message)).await {
                tracing::debug!(%failure, "a notification did not reach the server");
            }
        });
    }
}
