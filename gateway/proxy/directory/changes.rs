//! What listeners hear. Each organisation has a channel of its own beside that of the operator's
//! servers, so that nobody hears of another's changes, and none can crowd out the others'.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_upstream::{Announcement, ServerId, Subscription};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Changes that wait for a slow reader before the oldest are lost.
const BACKLOG: usize = 1024;
/// The same of one organisation's servers.
const OWN_BACKLOG: usize = 256;

/// What listeners hear.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// There is another catalog, or servers say of lists that they have changed.
    Catalog(Arc<[Announcement]>),
    /// A resource of a server, by its own URI, has changed, as was said on this connection.
    Updated { server: ServerId, uri: Arc<str>, on: Subscription },
    /// A task of a server, by its own id, has news.
    Task { server: ServerId, id: Arc<str> },
}

/// See the module.
pub(crate) struct Changes {
    shared: broadcast::Sender<Change>,
    /// Of the organisations that somebody listens in.
    own: Mutex<HashMap<Arc<str>, broadcast::Sender<Change>>>,
}

/// The changes that members of one organisation hear.
pub(crate) struct ChangeReceiver {
    shared: broadcast::Receiver<Change>,
    own: broadcast::Receiver<Change>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { shared: broadcast::channel(BACKLOG).0, own: Mutex::default() }
    }
}

impl Changes {
    pub(crate) fn subscribe(&self, organisation: &str) -> ChangeReceiver {
        let mut channels = self.own.lock();
        let own = match channels.get(organisation) {
            Some(known) => known.subscribe(),
            None => {
                channels.retain(|_, channel| channel.receiver_count() > 0);
                let (sender, receiver) = broadcast::channel(OWN_BACKLOG);
                channels.insert(organisation.into(), sender);
                receiver
            }
        };
        ChangeReceiver { shared: self.shared.subscribe(), own }
    }

    /// Tells of a change of one organisation, or of the operator's servers, of which all hear.
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
    /// Cancel safe.
    pub(crate) async fn recv(&mut self) -> Result<Change, RecvError> {
        tokio::select! {
            change = self.shared.recv() => change,
            change = self.own.recv() => change,
        }
    }
}
