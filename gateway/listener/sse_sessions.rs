//! The open HTTP+SSE streams, by session id. An id alone grants no access.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderValue;
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_proxy::transport::{ExchangeKind, Reply};
use lockgate_text::hex;
use parking_lot::Mutex;

use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::session_client::{self, MessageQueue, SessionClient};

pub(crate) struct Sessions {
    /// `None` once the listener shuts down.
    open: Mutex<Option<HashMap<String, Session>>>,
    max: usize,
}

/// An open stream, which ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Session {
    pub owner: Arc<Owner>,
    pub out: MessageQueue,
}

/// The owner of a stream, and the proxy session behind it.
pub(crate) struct Owner {
    pub caller: SessionClient,
    pub proxied: Mutex<Option<HeaderValue>>,
}

impl Sessions {
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Mutex::new(Some(HashMap::new())), max }
    }

    /// Stops accepting messages. Streams end with the last call running on them.
    pub(crate) fn close(&self) {
        drop(self.open.lock().take());
    }

    pub(crate) fn add(&self, session: Session) -> Result<String, ListenerError> {
        let Some(id) = hex::random::<16>() else { return Err(ListenerError::Busy) };
        match self.open.lock().as_mut() {
            Some(open) if open.len() < self.max => open.insert(id.clone(), session),
            _ => return Err(ListenerError::Streams),
        };
        Ok(id)
    }

    /// Returns the session with this id without checking its owner.
    pub(crate) fn find(&self, id: &str) -> Result<Session, ListenerError> {
        if let Some(open) = self.open.lock().as_ref()
            && let Some(session) = open.get(id)
        {
            return Ok(session.clone());
        }
        Err(ListenerError::NoSession)
    }

    pub(crate) fn remove(&self, id: &str) {
        if let Some(open) = self.open.lock().as_mut() {
            open.remove(id);
        }
    }
}

impl Session {
    /// Returns the session if it belongs to this principal.
    pub(crate) fn of(self, principal: &Principal) -> Result<Self, ListenerError> {
        if self.owner.caller.principal == *principal {
            Ok(self)
        } else {
            Err(ListenerError::NoSession)
        }
    }

    /// Stores the session id from `initialize`, and forwards the session's messages outside calls.
    pub(crate) fn adopt<H: Handler>(&self, reply: &Reply, handler: &Arc<H>) {
        let Some(proxied) = session_client::find_session_id(reply) else { return };
        let before = self.owner.proxied.lock().replace(proxied.clone());
        if before.as_ref() == Some(&proxied) {
            return;
        }
        let session = self.clone();
        let handler = Arc::clone(handler);
        spawn(async move {
            let forward = async {
                if let Some(events) =
                    session.owner.caller.listen(&*handler, ExchangeKind::Listen, &proxied).await
                {
                    session_client::forward_events(events, &session.out).await;
                }
            };
            tokio::select! {
                () = session.out.closed() => {}
                () = forward => {}
            }
        });
    }
}
