//! An event stream of a server while it is read: its events one by one, within a bound, and where to resume it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lockgate_egress::Body;
use lockgate_protocol::sse;

use super::{HttpLink, body_failure};
use crate::failure::{Failure, Kind};
use crate::link::Inbox;

/// Longest delay that a server may ask for before its stream is resumed.
const MAX_RETRY: Duration = Duration::from_secs(10);
/// How long the rest of a stream may take after its response, before its connection is given up.
const DRAIN: Duration = Duration::from_millis(250);

/// A stream being read.
pub(super) struct Reading {
    body: Option<Body>,
    decoder: sse::Decoder,
    max: usize,
    pub(super) last_id: Option<String>,
    pub(super) retry: Duration,
    inbox: Arc<dyn Inbox>,
}

impl Reading {
    pub(super) fn new(body: Body, link: &HttpLink) -> Self {
        let max = link.limits.event_bytes;
        Self {
            inbox: Arc::clone(&link.inbox),
            body: Some(body),
            decoder: sse::Decoder::new(max),
            max,
            last_id: None,
            retry: Duration::from_millis(200),
        }
    }

    pub(super) fn resume(&mut self, body: Body) {
        self.body = Some(body);
        self.decoder = sse::Decoder::new(self.max);
    }

    /// The next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<sse::Event>, Failure> {
        loop {
            match self.decoder.next() {
                Ok(Some(event)) => {
                    if let Some(id) = &event.id {
                        self.last_id = Some(id.to_string());
                    }
                    if let Some(ms) = event.retry {
                        self.retry = Duration::from_millis(ms).min(MAX_RETRY);
                    }
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(_) => {
                    let words = "the server sent an event larger than allowed (limits.event_bytes)";
                    return Err(Failure::new(Kind::TooLarge, words).after_send());
                }
            }
            let Some(body) = self.body.as_mut() else { return Ok(None) };
            match body.frame().await {
                Some(Ok(frame)) => {
                    self.inbox.heard();
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(data);
                    }
                }
                Some(Err(error)) => return Err(body_failure(&error)),
                None => self.body = None,
            }
        }
    }

    /// Lets the stream end in the background, so that its connection can be used again.
    pub(super) fn drain(mut self) {
        let Some(mut body) = self.body.take() else { return };
        let rest = async move { while let Some(Ok(_)) = body.frame().await {} };
        let mut rest = Box::pin(tokio::time::timeout(DRAIN, rest));
        if rest.as_mut().now_or_never().is_none() {
            tokio::spawn(rest);
        }
    }
}
