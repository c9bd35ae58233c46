//! Messages to a scripted upstream, and its possible responses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

/// A message from the gateway.
#[derive(Clone, Debug)]
pub struct HeardMessage {
    /// `POST`, `GET`, `DELETE`, or `LINE` over stdio.
    pub verb: String,
    pub headers: Vec<(String, String)>,
    pub text: String,
    pub body: Value,
}

impl HeardMessage {
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns a response with the id of this request.
    pub fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    pub fn error(&self, code: i64, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": {"code": code, "message": message}})
    }

    pub fn text_result(&self, text: &str) -> Say {
        Say::Json(
            self.result(
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
            ),
        )
    }
}

/// The upstream's response to a message.
#[derive(Clone)]
pub enum Say {
    Json(Value),
    /// A JSON message after a delay.
    Late(Duration, Value),
    /// A JSON message with another status and further headers.
    Status(u16, Vec<(&'static str, String)>, Value),
    /// An event stream with this text, which then ends.
    Sse(String),
    /// An event stream that starts with this text and stays open.
    Stream(String),
    /// These bytes as a body of this type, or as a line.
    Text(&'static str, Vec<u8>),
    /// These bytes; then the connection is closed.
    Raw(Vec<u8>),
    /// A JSON body: its start, this many bytes `x`, and its end. Over lines, one line.
    Long(Vec<u8>, usize, &'static str),
    /// The bytes, followed by the byte without end.
    Endless(Vec<u8>, u8),
    /// The start of a body of this type, or of a line; then the connection stalls.
    Stalled(&'static str, Arc<Vec<u8>>),
    /// No response; the connection stays open.
    Nothing,
    /// No response; the connection is closed.
    Close,
}

impl Say {
    /// Waits for the delay of `Late`.
    pub(super) async fn in_time(self) -> Self {
        if let Self::Late(pause, _) = &self {
            tokio::time::sleep(*pause).await;
        }
        self
    }
}

pub(super) type Script = Arc<dyn Fn(&HeardMessage) -> Say + Send + Sync>;
