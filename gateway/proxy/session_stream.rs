//! Streams of legacy sessions on their way to a client: of one call, or of what is told outside of
//! calls.

use std::sync::Arc;

use http::HeaderMap;
use lockgate_protocol::revision::Revision;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::session::{Log, Reader, Session};
use crate::streams::OpenStream;
use crate::transport::{Events, Outgoing, Reply, Text};

/// How long a client waits before it resumes a stream, in milliseconds.
const RETRY_MS: u64 = 1000;

/// An exchange without an answer: a stream that ends.
pub(crate) fn silence() -> Reply {
    Reply::Stream { headers: HeaderMap::new(), events: Box::pin(futures_util::stream::empty()) }
}

/// The stream of one call from its beginning.
pub(crate) fn stream_call(gateway: &Arc<Gateway>, session: &Arc<Session>, log: &Arc<Log>) -> Reply {
    let mut reader = log.read(0);
    let priming = priming(session, &mut reader);
    Reply::Stream {
        headers: HeaderMap::new(),
        events: events(gateway, session, reader, priming, Some(gateway.streams.of_call())),
    }
}

/// The messages of a stream as events, until it ends, the session ends, or the gateway stops.
pub(crate) fn events(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    reader: Reader,
    first: Option<Outgoing>,
    open: Option<OpenStream>,
) -> Events {
    // A call may still end while the gateway stops; what is outside of calls ends with its clients'
    // leave to stay.
    let stopping =
        if reader.is_of_call() { CancellationToken::new() } else { gateway.stopping.clone() };
    let over = session.over.clone();
    let state = (reader, first, open, over, stopping);
    Box::pin(futures_util::stream::unfold(
        state,
        |(mut reader, first, open, over, stopping)| async move {
            let event = match first {
                Some(first) => Some(first),
                None => tokio::select! {
                    biased;
                    event = reader.next() => event,
                    () = over.cancelled() => None,
                    () = stopping.cancelled() => None,
                },
            };
            Some((event?, (reader, None, open, over, stopping)))
        },
    ))
}

/// What opens a stream of 2025-11-25: an id to resume from, and how long to wait.
fn priming(session: &Session, reader: &mut Reader) -> Option<Outgoing> {
    if session.revision < Revision::V2025_11_25 {
        return None;
    }
    let retry = Some(reader.take_retry().unwrap_or(RETRY_MS));
    Some(Outgoing { id: Some(reader.event_id(0)), data: Text::default(), retry })
}
