//! The client of a gateway that serves a single client over stdio. Its capabilities are declared to
//! legacy servers on the connection that is otherwise shared, so that one process per server
//! suffices.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use lockgate_text::json;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::call::ClientSession;

/// Longest wait for the client's capabilities, which its first message contains.
const CAPABILITIES_TIMEOUT: Duration = Duration::from_secs(3);

/// The capabilities and session of the only client.
pub struct SingleClient {
    /// JSON text of its capabilities, once declared.
    declared: watch::Sender<Option<Bytes>>,
    session: Mutex<Option<Weak<dyn ClientSession>>>,
}

impl SingleClient {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { declared: watch::Sender::new(None), session: Mutex::new(None) })
    }

    /// Reports whether the client has not declared capabilities yet.
    pub fn is_new(&self) -> bool {
        self.declared.borrow().is_none()
    }

    /// Records the client's capabilities (JSON text). Only the first call has an effect.
    pub fn declare(&self, capabilities: &Bytes) {
        self.declared.send_if_modified(|declared| {
            let is_first = declared.is_none();
            if is_first {
                *declared = Some(capabilities.clone());
            }
            is_first
        });
    }

    /// Records the client's legacy session.
    pub fn open_session(&self, session: &Arc<dyn ClientSession>) {
        *self.session.lock() = Some(Arc::downgrade(session));
    }

    pub(crate) fn session(&self) -> Option<Arc<dyn ClientSession>> {
        self.session.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Reports whether exactly these capabilities were declared to servers.
    pub(crate) fn has_declared(&self, capabilities: &Bytes) -> bool {
        self.declared.borrow().as_ref() == Some(capabilities)
    }

    /// Returns the capabilities to declare to servers. Waits briefly for the client; after that,
    /// the empty set is final.
    pub(crate) async fn capabilities(&self) -> Value {
        let mut declared = self.declared.subscribe();
        let _ =
            tokio::time::timeout(CAPABILITIES_TIMEOUT, declared.wait_for(Option::is_some)).await;
        self.declare(&Bytes::from_static(b"{}"));
        let declared = self.declared.borrow();
        let text = declared.as_deref().unwrap_or(b"{}");
        json::from_slice(text).unwrap_or_else(|_| json!({}))
    }
}
