//! The only client of a gateway that serves one alone, over stdio. What it declares goes to legacy
//! servers on the connection that everybody would share otherwise, so that one process of each
//! server is enough.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::call::ClientSession;

/// How long servers wait for what the client declares. It says so first of all.
const WAIT: Duration = Duration::from_secs(3);

/// See the module.
pub struct SoleClient {
    /// JSON text of its capabilities, once it has declared any.
    declared: watch::Sender<Option<Bytes>>,
    /// Its legacy session.
    session: Mutex<Option<Weak<dyn ClientSession>>>,
}

impl SoleClient {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { declared: watch::Sender::new(None), session: Mutex::new(None) })
    }

    /// Whether the client has not declared anything yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.declared.borrow().is_none()
    }

    /// The client declares its capabilities: JSON text. What it declared first stays.
    pub fn declare(&self, capabilities: &Bytes) {
        self.declared.send_if_modified(|declared| {
            let is_first = declared.is_none();
            if is_first {
                *declared = Some(capabilities.clone());
            }
            is_first
        });
    }

    /// The client has opened a legacy session.
    pub fn open_session(&self, session: &Arc<dyn ClientSession>) {
        *self.session.lock() = Some(Arc::downgrade(session));
    }

    /// Its legacy session, while there is one.
    pub(crate) fn session(&self) -> Option<Arc<dyn ClientSession>> {
        self.session.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Whether servers have been told just these capabilities.
    pub(crate) fn has_declared(&self, capabilities: &Bytes) -> bool {
        self.declared.borrow().as_ref() == Some(capabilities)
    }

    /// What servers are told. Waits a little for the client, which then declares nothing.
    pub(crate) async fn capabilities(&self) -> Value {
        let mut declared = self.declared.subscribe();
        let _ = tokio::time::timeout(WAIT, declared.wait_for(Option::is_some)).await;
        self.declare(&Bytes::from_static(b"{}"));
        let declared = self.declared.borrow();
        let text = declared.as_deref().unwrap_or(b"{}");
        serde_json::from_slice(text).unwrap_or_else(|_| json!({}))
    }
}
