//! Notifications of changes. Each organisation has its own channel beside that of the operator's
//! servers, so that changes stay private to it and cannot crowd out those of others.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_upstream::{Announcement, ResourceUpdate, ServerId};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Changes buffered for a slow receiver before the oldest are lost.
const MAX_BACKLOG: usize = 1024;
/// Limit of the same changes for an organisation's servers.
const OWN_BACKLOG: usize = 256;

/// A change that clients may be notified of.
#[derive(Clone, Debug)]
pub enum Change {
    /// The catalog was replaced, or servers announced changed lists.
    Catalog(Arc<[Announcement]>),
    /// A resource was updated.
    Updated(ResourceUpdate),
    /// A task, by the server's own id, has changed.
    Task { server: ServerId, id: Arc<str> },
}

/// The channels of changes.
pub struct Changes {
    shared: broadcast::Sender<Change>,
    /// Channels of organisations with receivers.
    own: Mutex<HashMap<Arc<str>, broadcast::Sender<Change>>>,
}

/// Receives the changes for members of an organisation.
pub struct ChangeReceiver {
    shared: broadcast::Receiver<Change>,
    own: broadcast::Receiver<Change>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { shared: broadcast::Sender::new(MAX_BACKLOG), own: Mutex::default() }
    }
}

impl Changes {
    pub fn subscribe(&self, organisation: &str) -> ChangeReceiver {
        let mut channels = self.own.lock();
        if !channels.contains_key(organisation) {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        let own = channels.entry(organisation.into());
        let own = own.or_insert_with(|| broadcast::Sender::new(OWN_BACKLOG)).subscribe();
        ChangeReceiver { shared: self.shared.subscribe(), own }
    }

    /// Sends a change to an organisation's receivers, or to all for the operator's servers.
    pub(crate) fn send(&self, organisation: Option<&Arc<str>>, change: Change) {
        match organisation {
            None => drop(self.shared.send(change)),
            Some(organisation) => {
                if let Some(channel) = self.own.lock().get(organisation) {
                    let _ = channel.send(change);
                }
            }
        }
    }
}

impl ChangeReceiver {
    /// Receives the next change. Cancel safe.
    pub async fn recv(&mut self) -> Result<Change, RecvError> {
        tokio::select! {
            change = self.shared.recv() => change,
            change = self.own.recv() => change,
        }
    }
}

/// Returns whether an update of the resource `own` concerns subscriptions to `whole`: both are
/// equal, or `own` is a part of `whole`.
pub fn covers_resource(whole: &str, own: &str) -> bool {
    let Some(rest) = own.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

#[cfg(test)]
mod tests;
