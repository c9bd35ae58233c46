//! Tools that send logs or progress before the result, or close their response stream early.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::Tool;

use super::{Answer, plain, text};
use crate::{call::Call, http::StreamCloser};

const PAUSE: Duration = Duration::from_millis(50);
/// Longer than the retry delay of the closed stream: the SDK drops a result that completes while
/// the client is disconnected.
const ABSENCE: Duration = Duration::from_millis(3400);

pub(super) fn list() -> Vec<Tool> {
    vec![
        plain("test_tool_with_logging", "Logs three messages at info"),
        plain("test_logging_tool", "Logs one message at info"),
        plain("test_tool_with_progress", "Reports progress three times"),
        plain("test_reconnection", "Closes its response stream, then answers"),
        plain("test_cancellation", "Waits until it is cancelled"),
        plain("test_cancelled_count", "Says how many of those were cancelled"),
    ]
}

pub(super) async fn call(call: &Call, name: &str) -> Option<Answer> {
    match name {
        "test_tool_with_logging" => {
            call.log("Tool execution started").await;
            tokio::time::sleep(PAUSE).await;
            call.log("Tool processing data").await;
            tokio::time::sleep(PAUSE).await;
            call.log("Tool execution completed").await;
            Some(text("Tool with logging executed"))
        }
        "test_logging_tool" => {
            call.log("Said only to those who asked").await;
            Some(text("Logging tool executed"))
        }
        "test_tool_with_progress" => {
            call.progress(0.0, 100.0).await;
            tokio::time::sleep(PAUSE).await;
            call.progress(50.0, 100.0).await;
            tokio::time::sleep(PAUSE).await;
            call.progress(100.0, 100.0).await;
            Some(text("Tool with progress executed"))
        }
        "test_cancellation" => {
            // Counts every cancellation: the SDK either cancels the token or drops the future.
            let _counted = Counted(&call.shared.cancelled);
            call.progress(0.0, 1.0).await;
            call.context.ct.cancelled().await;
            Some(text("Cancelled"))
        }
        "test_cancelled_count" => {
            Some(text(call.shared.cancelled.load(Ordering::SeqCst).to_string()))
        }
        "test_reconnection" => {
            reconnect(call).await;
            Some(text("Answered after the stream was closed"))
        }
        _ => None,
    }
}

/// Counts drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Closes the response stream. Only legacy HTTP sessions can resume it; others continue normally.
async fn reconnect(call: &Call) {
    if call.is_modern() {
        return;
    }
    let closer = call
        .context
        .extensions
        .get::<Parts>()
        .and_then(|parts| parts.extensions.get::<StreamCloser>());
    if let Some(closer) = closer {
        // The priming event must be sent first.
        tokio::time::sleep(PAUSE).await;
        closer.0.cancel();
        tokio::time::sleep(ABSENCE).await;
    }
}
