//! Event streams of modern calls with messages ahead of the response.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::client_channel::Waiting;
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::streams::OpenStream;
use crate::transport::{Outgoing, Reply, Text};

/// An ended call.
pub type Called = (Box<RequestContext>, Result<Text, RequestError>);
pub(super) type Work = BoxFuture<'static, Called>;

/// Streams the first message and the further messages of a running call.
pub(super) fn stream_rest(
    first: Waiting,
    receiver: mpsc::Receiver<Waiting>,
    work: Work,
    open: OpenStream,
) -> Reply {
    let state: Option<StreamState> = Some((Some(first.text), receiver, work, open));
    let events = futures_util::stream::unfold(state, |state| async move {
        let (first, receiver, work, open) = state?;
        next_event(first, receiver, work, open).await
    });
    Reply::events(Box::pin(events))
}

/// Streams messages that arrived together with the response.
pub(super) fn stream_all(early: Vec<Waiting>, last: Text) -> Reply {
    let all = early.into_iter().map(|waiting| Text::Whole(waiting.text)).chain([last]);
    let events = futures_util::stream::iter(all.map(Outgoing::from));
    Reply::events(Box::pin(events))
}

/// State of an event stream: a message to send, and the sources of further messages.
type StreamState = (Option<Bytes>, mpsc::Receiver<Waiting>, Work, OpenStream);

async fn next_event(
    first: Option<Bytes>,
    mut receiver: mpsc::Receiver<Waiting>,
    mut work: Work,
    open: OpenStream,
) -> Option<(Outgoing, Option<StreamState>)> {
    if let Some(first) = first {
        return Some((Text::from(first).into(), Some((None, receiver, work, open))));
    }
    tokio::select! {
        biased;
        Some(waiting) = receiver.recv() => {
            Some((Text::from(waiting.text).into(), Some((None, receiver, work, open))))
        }
        (context, answer) = &mut work => {
            let last = write_final_text(&context, answer);
            match receiver.try_recv() {
                // Rare: a message that arrived with the response is sent first.
                Ok(waiting) => {
                    let work: Work = Box::pin(std::future::ready((context, Ok(last))));
                    Some((Text::from(waiting.text).into(), Some((None, receiver, work, open))))
                }
                Err(_) => Some((last.into(), None)),
            }
        }
    }
}

/// Writes the response to a call, or the error.
pub fn write_final_text(context: &RequestContext, answer: Result<Text, RequestError>) -> Text {
    answer.unwrap_or_else(|problem| context.write_error(&problem).into())
}
