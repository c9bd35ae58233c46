//! Records as signed HTTP requests. A body consists of unmodified lines of the trail's file, as
//! accepted by receivers of JSON lines (Vector, Filebeat, Logstash, Splunk's raw endpoint). The
//! concatenated bodies are a verifiable trail; an array would have to be taken apart first. Only a
//! status of 2xx acknowledges records.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error};
use bytes::Bytes;
use lockgate_egress::Connector;
use lockgate_telemetry::audit::{Records, Webhook};
use lockgate_text::json;
use lockgate_upstream::header_map;
use serde_json::Value;

use super::backlog::{Backlog, ForwardError};
use crate::signed_post::SignedPost;

const MEDIA_TYPE: &str = "application/x-ndjson";
/// Pause after a permanent rejection.
const REJECTION_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause that a response can request.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(60);
/// Hash digits in the id of a request: enough to distinguish trails.
const ID_DIGITS: usize = 16;

/// A webhook that receives records.
pub(super) struct Poster {
    post: SignedPost,
    /// Records read but not acknowledged.
    held: Option<Body>,
}

struct Body {
    id: String,
    lines: Bytes,
}

impl Poster {
    /// Creates the client.
    ///
    /// # Errors
    /// Its address or a header cannot be used.
    pub(super) fn new(config: &Webhook, connector: &Arc<Connector>) -> anyhow::Result<Self> {
        let headers = header_map(&config.headers).map_err(Error::msg);
        let headers = headers.context("audit.webhook.headers")?;
        let post = SignedPost::new(&config.url, &config.secret, headers, connector);
        Ok(Self { post: post.context("audit.webhook.url")?, held: None })
    }

    /// Sends the backlog, a body at a time.
    pub(super) async fn deliver(&mut self, backlog: &mut Backlog) -> Result<(), ForwardError> {
        loop {
            let body = match self.held.take() {
                Some(body) => body,
                None => match backlog.next().await? {
                    Some(records) => Body::new(records),
                    None => return Ok(()),
                },
            };
            let sent = self.send(&body).await;
            if sent.is_err() {
                self.held = Some(body);
                return sent;
            }
            backlog.set_taken().await;
        }
    }

    async fn send(&self, body: &Body) -> Result<(), ForwardError> {
        let answer = self.post.send(&body.id, MEDIA_TYPE, &body.lines).await;
        let answer = answer.map_err(|words| ForwardError::new(&words))?;
        if answer.status.is_success() {
            return Ok(());
        }
        let words = format!("the receiver returned {}", answer.status);
        let asked = answer.retry_after.unwrap_or(Duration::ZERO).min(MAX_REQUESTED_PAUSE);
        if answer.may_pass() {
            return Err(ForwardError { words, pause: asked });
        }
        Err(ForwardError {
            words: format!("{words}: fix the receiver"),
            pause: asked.max(REJECTION_PAUSE),
        })
    }
}

impl Body {
    /// Creates a body. Its id is the same for every attempt.
    fn new(records: Records) -> Self {
        let Records { first, last, lines, .. } = records;
        let line = lines.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let record: Value = json::from_slice(line.unwrap_or(&[])).unwrap_or(Value::Null);
        let hash = record["hash"].as_str().and_then(|hash| hash.get(..ID_DIGITS)).unwrap_or("");
        let id = format!("{first}-{last}-{hash}");
        Self { id, lines: lines.into() }
    }
}

#[cfg(test)]
mod tests;
