//! Progress and log messages of a running call, for a reader in this process. The newest are kept,
//! within limits of count and length.

use std::collections::VecDeque;

use axum::body::Bytes;
use lockgate_protocol::method::Method;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

/// Maximum number of log messages kept for a call; the oldest are dropped.
const MAX_LINES: usize = 50;
/// Maximum length of the text of a message, in characters; the rest is cut off.
const MAX_TEXT: usize = 1_000;
/// Maximum size of a message that is read, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// The messages of a call so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageLog {
    pub(crate) progress: Option<CallProgress>,
    pub(crate) lines: VecDeque<LogLine>,
    /// The number of dropped log messages.
    pub(crate) dropped: usize,
    pub(crate) has_ended: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallProgress {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: String,
}

#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    pub(crate) level: String,
    pub(crate) text: String,
}

/// The messages of a call: written by the call, and followed by readers.
#[derive(Clone)]
pub(crate) struct CallMessages(watch::Sender<MessageLog>);

#[derive(Deserialize)]
struct Notification {
    method: String,
    params: Value,
}

impl Default for CallMessages {
    fn default() -> Self {
        Self(watch::channel(MessageLog::default()).0)
    }
}

impl CallMessages {
    /// Adds a message of the call's stream; others than progress and log messages are ignored.
    pub(super) fn add(&self, text: &Bytes) {
        if text.len() > MAX_MESSAGE {
            return;
        }
        let Ok(Notification { method, params }) = serde_json::from_slice(text) else { return };
        match Method::parse(&method) {
            Method::Progress => {
                let Ok(mut progress) = serde_json::from_value::<CallProgress>(params) else {
                    return;
                };
                progress.message = shorten(&progress.message);
                self.0.send_modify(|log| log.progress = Some(progress));
            }
            Method::Message => self.0.send_modify(|log| log.add_line(&params)),
            _ => {}
        }
    }

    /// Records that the call has ended.
    pub(crate) fn end(&self) {
        self.0.send_modify(|log| log.has_ended = true);
    }

    pub(crate) fn read(&self) -> MessageLog {
        self.0.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<MessageLog> {
        self.0.subscribe()
    }
}

impl MessageLog {
    fn add_line(&mut self, params: &Value) {
        let level = params["level"].as_str().unwrap_or("info").to_owned();
        let text = match &params["data"] {
            Value::String(text) => shorten(text),
            data => shorten(&data.to_string()),
        };
        self.lines.push_back(LogLine { level, text });
        if self.lines.len() > MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests;
