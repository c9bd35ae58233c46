//! Records as signed HTTP requests. A body is lines of the trail's file as they stand there: what
//! takes JSON lines (Vector, Filebeat, Logstash, Splunk's raw endpoint) takes it, and
//! put together the bodies are a trail that verifies; an array would have to be taken apart first.
//! A status of 2xx is what takes them, and nothing else lets them go.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use lockgate_authn::Outside;
use lockgate_telemetry::audit::{Records, Webhook};
use serde_json::Value;

use super::backlog::Backlog;
use super::trouble::ForwardError;
use crate::signed_post::SignedPost;

const MEDIA_TYPE: &str = "application/x-ndjson";
/// What is waited after an answer that says that the same will not be taken.
const REFUSED: Duration = Duration::from_secs(30);
/// Longest pause that an answer can ask for.
const MOST_ASKED: Duration = Duration::from_secs(60);
/// Digits of a hash in the id of a request: enough to tell trails apart.
const DIGITS: usize = 16;

/// An address that takes records.
pub(super) struct Poster {
    post: SignedPost,
    /// What was read and not taken.
    held: Option<Body>,
}

struct Body {
    id: String,
    lines: Bytes,
}

impl Poster {
    /// # Errors
    /// Its address or a header cannot be used.
    pub(super) fn new(config: &Webhook, outside: &Outside) -> anyhow::Result<Self> {
        let post = SignedPost::new(&config.url, &config.secret, outside);
        let post = post.context("audit.webhook.url")?;
        let post = post.with_headers(&config.headers).context("audit.webhook.headers")?;
        Ok(Self { post, held: None })
    }

    /// Sends what waits, one body after the other.
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
        let answer = match self.post.send(&body.id, MEDIA_TYPE, &body.lines).await {
            Ok(answer) => answer,
            Err(words) => return Err(ForwardError::new(&words)),
        };
        if answer.status.is_success() {
            return Ok(());
        }
        let words = format!("it answered {}", answer.status);
        let asked = answer.retry_after.unwrap_or(Duration::ZERO).min(MOST_ASKED);
        if answer.may_pass() {
            return Err(ForwardError { words, pause: asked });
        }
        Err(ForwardError { words: format!("{words}: mend it there"), pause: asked.max(REFUSED) })
    }
}

impl Body {
    /// The id is the same whenever the same is sent.
    fn new(records: Records) -> Self {
        let Records { first, last, lines, .. } = records;
        let line = lines.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let record: Value = serde_json::from_slice(line.unwrap_or(&[])).unwrap_or(Value::Null);
        let hash = match record.get("hash") {
            Some(Value::String(hash)) => hash.get(..DIGITS).unwrap_or(""),
            _ => "",
        };
        let id = format!("{first}-{last}-{hash}");
        Self { id, lines: lines.into() }
    }
}

#[cfg(test)]
mod tests;
