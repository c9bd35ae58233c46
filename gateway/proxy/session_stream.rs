//! Event streams of legacy sessions: of a call, or of notifications outside of calls.

use std::sync::Arc;

use lockgate_protocol::revision::Revision;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::session::{Log, Reader, Session};
use crate::streams::OpenStream;
use crate::transport::{Events, Outgoing, Reply, Text};

/// The client's delay before it resumes a stream, in milliseconds.
const RETRY_MS: u64 = 1000;

/// Returns an empty stream, for an exchange without a response.
pub(crate) fn silence() -> Reply {
    Reply::events(Box::pin(futures_util::stream::empty()))
}

/// Returns the stream of a call from its beginning.
pub(crate) fn stream_call(gateway: &Arc<Gateway>, session: &Arc<Session>, log: &Arc<Log>) -> Reply {
    let mut reader = log.read(0);
    let priming = priming(session, &mut reader);
    Reply::events(events(gateway, session, reader, priming, Some(gateway.streams.of_call())))
}

/// Returns a stream's messages as events, until the stream or the session ends or the gateway
/// stops.
pub(crate) fn events(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    reader: Reader,
    first: Option<Outgoing>,
    open: Option<OpenStream>,
) -> Events {
    // A stopping gateway lets calls end; only streams outside of calls are closed.
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

/// Returns the initial event of a stream in 2025-11-25: an id to resume from, and the reconnect
/// delay.
fn priming(session: &Session, reader: &mut Reader) -> Option<Outgoing> {
    if session.revision < Revision::V2025_11_25 {
        return None;
    }
    let retry = Some(reader.take_retry().unwrap_or(RETRY_MS));
    Some(Outgoing { id: Some(reader.event_id(0)), data: Text::default(), retry })
}
