//! Forwarding of answers and session ends that concern another gateway. A message is forwarded
//! once, and its response returned to the client. If the call waits here, the message is handled
//! like any request.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Method, StatusCode};
use lockgate_protocol::jsonrpc::Message;

use crate::gateway::Gateway;
use crate::peers::{self, Holder, PeerError, Peers, Sender};
use crate::rescue::RequestError;
use crate::snapshot::Snapshot;
use crate::transport::{Exchange, LEGACY, MODERN, Reply};

/// Timeout for another gateway to accept an answer or the end of a session.
const NOTE_TIMEOUT: Duration = Duration::from_secs(3);

impl Gateway {
    /// Answers a message whose call is at another gateway, or that another gateway forwarded in
    /// error. Returns `None` for most messages.
    pub async fn answer_elsewhere(
        &self,
        snapshot: &Snapshot,
        exchange: &Exchange,
        message: &Message,
    ) -> Option<Reply> {
        let peers = self.peers.get()?;
        let holder = Holder::of(&snapshot.sealer, exchange, message);
        if holder.is_none() && !peers::is_sent_on(exchange) {
            return None;
        }
        // Boxed because it is rare, to keep the future of a request small.
        Box::pin(answer_along(self, &**peers, snapshot, exchange, message, holder)).await
    }
}

/// Handles a message that names the gateway of its call, or that another gateway forwarded. Returns
/// `None` if the call is at this gateway.
async fn answer_along(
    gateway: &Gateway,
    peers: &dyn Peers,
    snapshot: &Snapshot,
    exchange: &Exchange,
    message: &Message,
    holder: Option<Holder>,
) -> Option<Reply> {
    let (text, id) = match message {
        Message::Request(request) => (&request.text, Some(request.id_bytes())),
        Message::Response(response) => (&response.text, None),
        Message::Notification(_) => return None,
    };
    let client = if id.is_some() { &MODERN } else { &LEGACY };
    let own = peers.address();
    let sender = peers::find_sender(&snapshot.sealer, own, exchange, Method::POST, text.clone());
    let sent = match (holder, sender) {
        // The message was forwarded in error. A gateway forwards only messages of the caller that
        // it authenticated, so this gateway has authenticated another caller and must not answer.
        (None, _) => Err(peers::refuse(Sender::Forger)),
        (Some(holder), Sender::Client | Sender::Peer) if holder.address == own => return None,
        (Some(holder), Sender::Client) => {
            let limit = if id.is_some() { None } else { Some(NOTE_TIMEOUT) };
            send(peers, snapshot, exchange, (text.clone(), limit), &holder).await
        }
        (_, sender) => Err(peers::refuse(sender)),
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

/// Ends the session of a DELETE request at all other gateways. Returns whether any of them had it.
pub async fn end_elsewhere(peers: &dyn Peers, snapshot: &Snapshot, exchange: &Exchange) -> bool {
    let own = peers.address();
    let limit = Some(NOTE_TIMEOUT);
    let Some(message) = peers::write_message(exchange, Method::DELETE, Bytes::new(), limit) else {
        tracing::warn!(
            "session ended only at this gateway: client certificates cannot be forwarded"
        );
        return false;
    };
    let mut is_ended = false;
    let mut sent = FuturesUnordered::new();
    for address in peers.all().await {
        if address == own {
            continue;
        }
        if let Some(message) = peers::sign(&snapshot.sealer, address, message.clone()) {
            sent.push(async move { (address, peers.send(address, message).await) });
        }
    }
    while let Some((address, answer)) = sent.next().await {
        match answer {
            Ok(answer) if answer.status.is_success() => is_ended = true,
            // The session is unknown there and will not be opened.
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => {}
            Ok(answer) => {
                let status = answer.status.as_u16();
                tracing::warn!(gateway = %address, status, "a session did not end at a gateway");
            }
            Err(error) => {
                tracing::warn!(gateway = %address, ?error, "a session did not end at a gateway");
            }
        }
    }
    is_ended
}
