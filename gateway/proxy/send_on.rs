//! Forwarding of answers that concern another gateway. A message is forwarded once, and its
//! response returned to the client. If the call waits here, the message is handled like any
//! request.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lockgate_protocol::jsonrpc::Message;

use crate::gateway::Gateway;
use crate::peers::{self, Holder, PeerError, Peers, Sender};
use crate::rescue::RequestError;
use crate::snapshot::Snapshot;
use crate::transport::{Exchange, LEGACY, MODERN, Reply};

/// Timeout for another gateway to accept an answer or the end of a session.
pub(crate) const NOTE_TIMEOUT: Duration = Duration::from_secs(3);

/// The role of another gateway in the handling of a message.
pub(crate) enum Way {
    /// The message names a call held by that gateway.
    To(Holder),
    /// Another gateway forwarded the message, but the message names no call of this caller. A
    /// gateway forwards only messages of the caller that it authenticated, so this gateway has
    /// authenticated another caller and must not answer.
    From,
}

/// Returns the way of a message, `None` for most messages.
pub(crate) fn find_way(snapshot: &Snapshot, exchange: &Exchange, message: &Message) -> Option<Way> {
    if let Some(holder) = Holder::of(&snapshot.sealer, exchange, message) {
        return Some(Way::To(holder));
    }
    peers::is_sent_on(exchange).then_some(Way::From)
}

/// Handles a message that names the gateway of its call. Returns `None` if that is this gateway.
pub(crate) async fn answer_elsewhere(
    gateway: &Gateway,
    peers: &dyn Peers,
    snapshot: &Snapshot,
    exchange: &Exchange,
    message: &Message,
    way: Way,
) -> Option<Reply> {
    let (text, id) = match message {
        Message::Request(request) => (&request.text, Some(request.id_bytes())),
        Message::Response(response) => (&response.text, None),
        Message::Notification(_) => return None,
    };
    let client = if id.is_some() { &MODERN } else { &LEGACY };
    let Way::To(holder) = way else {
        let problem = peers::refuse(Sender::Forger);
        gateway.record_refused_request(&problem, exchange);
        return Some(problem.reply_in(client, id.as_deref()));
    };
    let own = peers.address();
    let sender = peers::find_sender(&snapshot.sealer, own, exchange, Method::POST, text.clone());
    let sent = match (sender, holder.address == own) {
        (Sender::Client | Sender::Peer, true) => return None,
        (Sender::Client, false) => {
            let limit = if id.is_some() { None } else { Some(NOTE_TIMEOUT) };
            send(peers, snapshot, exchange, (text.clone(), limit), &holder).await
        }
        (sender, _) => Err(peers::refuse(sender)),
    };
    Some(match sent {
        Ok(answer) => peers::relay(answer, id.is_some()).await,
        Err(problem) => {
            gateway.record_refused_request(&problem, exchange);
            problem.reply_in(client, id.as_deref())
        }
    })
}

async fn send(
    peers: &dyn Peers,
    snapshot: &Snapshot,
    exchange: &Exchange,
    (body, limit): (Bytes, Option<Duration>),
    holder: &Holder,
) -> Result<peers::PeerAnswer, RequestError> {
    let Some(message) = peers::write_message(exchange, Method::POST, body, limit) else {
        return Err(peers::refuse_credentials());
    };
    let Some(message) = peers::sign(&snapshot.sealer, holder.address, message) else {
        return Err(holder.away(PeerError::Gone));
    };
    tracing::info!(gateway = %holder.address, "answer forwarded to the gateway of its call");
    peers.send(holder.address, message).await.map_err(|error| {
        tracing::warn!(gateway = %holder.address, ?error, "the gateway of a call did not answer");
        holder.away(error)
    })
}
