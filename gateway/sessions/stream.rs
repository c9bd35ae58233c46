//! Event streams of sessions, of a call or of notifications outside of calls, and the end of a
//! session by its client. Page: basic/transports.mdx (2025-11-25).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use lockgate_protocol::code;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_proxy::peers::{self, Sender};
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::send_on::end_elsewhere;
use lockgate_proxy::snapshot::Snapshot;
use lockgate_proxy::transport::{
    Events, Exchange, ExchangeKind, Outgoing, Reply, SESSION, Text, VERSION, header, session_header,
};
use lockgate_proxy::{Gateway, OpenStream};
use tokio_util::sync::CancellationToken;

use crate::edge::Edge;
use crate::session::{Log, Reader, Session, parse_event_id};

/// Opens the stream for messages outside calls, or resumes the stream of a call.
pub(crate) fn open_stream(edge: &Edge, snapshot: &Snapshot, exchange: &Exchange) -> Reply {
    let gateway = &*edge.gateway;
    if header(&exchange.headers, &SESSION).is_none() {
        return refuse_without_session(edge, snapshot, exchange, "GET");
    }
    let Some(session) = edge.session_of(exchange) else {
        return edge.refuse_unknown_session(exchange, None, None);
    };
    if let Some(problem) = check_version(&exchange.headers) {
        return gateway.refuse(&problem, exchange, None);
    }
    let counted = matches!(exchange.kind, ExchangeKind::Listen);
    let open = if counted { Ok(None) } else { gateway.stream(&exchange.principal).map(Some) };
    let open = match open {
        Ok(open) => open,
        Err(too_many) => {
            let problem = RequestError::too_many_streams(too_many);
            let problem = problem.status(StatusCode::SERVICE_UNAVAILABLE);
            return gateway.refuse(&problem, exchange, None);
        }
    };
    edge.end_subscriptions(&session, snapshot);
    let reader = match find_resumed(&session, &exchange.headers) {
        Some((log, after)) => log.read(after),
        // A new stream begins with the messages that earlier streams have not delivered.
        None => {
            let log = session.listen();
            log.read(log.delivered())
        }
    };
    let events = events(gateway, &session, reader, None, open);
    Reply::events(events).with_headers(session_header(&session.id))
}

/// Returns the stream to resume and the last event that the client received. An unknown or expired
/// event is not an error: the client gets a new stream.
fn find_resumed(session: &Session, headers: &HeaderMap) -> Option<(Arc<Log>, u64)> {
    let last = header(headers, &HeaderName::from_static("last-event-id"))?;
    let (number, after) = parse_event_id(last)?;
    let log = session.log(number)?;
    if log.has_numbered(after) { Some((log, after)) } else { None }
}

/// Refuses a GET or DELETE without a session: 404 if the endpoint does not exist, otherwise 405.
fn refuse_without_session(
    edge: &Edge,
    snapshot: &Snapshot,
    exchange: &Exchange,
    verb: &str,
) -> Reply {
    let gateway = &edge.gateway;
    let rights = snapshot.rights_of(exchange.principal.clone(), &exchange.endpoint);
    if gateway.view(&[], snapshot, &rights).is_none() {
        return gateway.refuse(&RequestError::no_endpoint(), exchange, None);
    }
    edge.refuse_unknown_session(exchange, None, None);
    let words = format!("{verb} needs a session: send `initialize` by POST first");
    RequestError::new(code::INVALID_REQUEST, words)
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .reply(None)
}

/// Ends the session that a request names: here, and at all other gateways if a client sent the
/// request.
pub(crate) async fn end_session(edge: &Edge, snapshot: &Snapshot, exchange: &Exchange) -> Reply {
    let gateway = &edge.gateway;
    let mut others = None;
    if let Some(peers) = gateway.peers.get() {
        let own = peers.address();
        let body = Bytes::new();
        match peers::find_sender(&snapshot.sealer, own, exchange, http::Method::DELETE, body) {
            Sender::Client => others = Some(&**peers),
            Sender::Peer => {}
            Sender::Forger => {
                return gateway.refuse(&peers::refuse(Sender::Forger), exchange, None);
            }
        }
    }
    let Some(named) = header(&exchange.headers, &SESSION) else {
        return refuse_without_session(edge, snapshot, exchange, "DELETE");
    };
    let mut is_ended = end_named_session(edge, snapshot, exchange, named);
    if let Some(others) = others
        && end_elsewhere(others, snapshot, exchange).await
        && !is_ended
    {
        // Prevents this gateway from opening the session later.
        edge.sessions.record_ended(named);
        is_ended = true;
    }
    if is_ended {
        Reply::empty(StatusCode::NO_CONTENT)
    } else {
        edge.refuse_unknown_session(exchange, None, None)
    }
}

/// Ends a session, even if it is not open here. Returns whether it is the caller's.
fn end_named_session(edge: &Edge, snapshot: &Snapshot, exchange: &Exchange, named: &str) -> bool {
    let Exchange { principal, endpoint, .. } = exchange;
    if let Some(session) = edge.sessions.find(named, principal, endpoint) {
        edge.sessions.record_ended(&session.id);
        edge.end_session(&session);
        return true;
    }
    // Not opened for this, because the table may be full.
    let is_own = edge.open_portable(snapshot, named, exchange).is_some();
    if is_own {
        edge.sessions.record_ended(named);
    }
    is_own
}

/// Returns the error for an unknown version in a session.
pub(crate) fn check_version(headers: &HeaderMap) -> Option<RequestError> {
    let version = header(headers, &VERSION)?;
    if matches!(Revision::parse(version), Some(revision) if revision.era() == Era::Legacy) {
        return None;
    }
    let words = format!("unsupported protocol version in a session: {version:.64}");
    Some(RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST))
}

/// The client's delay before it resumes a stream, in milliseconds.
const RETRY_MS: u64 = 1000;

/// Returns an empty stream, for an exchange without a response.
pub(crate) fn silence() -> Reply {
    Reply::events(Box::pin(futures_util::stream::empty()))
}

/// Returns the stream of a call from its beginning.
pub(crate) fn stream_call(gateway: &Gateway, session: &Arc<Session>, log: &Arc<Log>) -> Reply {
    let mut reader = log.read(0);
    let priming = priming(session, &mut reader);
    Reply::events(events(gateway, session, reader, priming, Some(gateway.streams.of_call())))
}

/// Returns a stream's messages as events, until the stream or the session ends or the gateway
/// stops.
fn events(
    gateway: &Gateway,
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
