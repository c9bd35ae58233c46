//! A server's clients: that of the gateway, and those of users with accounts of their own; and the
//! configured servers that an operator has connected or disconnected.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use lockgate_admission::spawn;
use lockgate_upstream::{Client, Config, Upstream};
use parking_lot::Mutex;

use crate::shutdown::Retiring;
use crate::user_clients::UserClients;

/// The clients of one server.
#[derive(Clone)]
pub(crate) struct ServerClients {
    pub(crate) client: Arc<Client>,
    /// The clients of users with their own accounts; `client` reads the lists then.
    pub(crate) users: Option<Arc<UserClients>>,
}

impl ServerClients {
    pub(crate) fn server(&self) -> Arc<dyn Upstream> {
        match &self.users {
            Some(users) => Arc::clone(users) as _,
            None => Arc::clone(&self.client) as _,
        }
    }

    /// Applies changed settings of the server.
    pub(crate) fn reconfigure(&self, wanted: Config) {
        self.client.reconfigure(wanted);
        if let Some(users) = &self.users {
            users.reconfigure();
        }
    }

    /// Ends the clients after their last calls.
    pub(crate) fn retire(self, retiring: &Retiring) {
        if let Some(users) = self.users {
            users.retire(retiring);
        }
        retiring.retire(self.client);
    }

    /// Closes the clients of these servers, and those that are retiring.
    pub(crate) async fn close_all(all: impl Iterator<Item = Self>, retiring: &Retiring) {
        let closing = all.map(|Self { client, users }| {
            spawn(async move {
                let users = users.iter().map(|users| users.close());
                join(join_all(users), client.close()).await;
            })
        });
        join(join_all(closing), retiring.close()).await;
    }
}

/// Configured servers that an operator has connected or disconnected at run time. A switch survives
/// reloads until the server's own entry changes; then the entry applies again.
#[derive(Default)]
pub(crate) struct Switches(Mutex<BTreeMap<String, Switched>>);

struct Switched {
    /// The server's entry in the configuration at the time of the switch.
    configured: Config,
    enabled: bool,
}

impl Switches {
    /// Records that a server is to be connected, or not. `current` is its entry with earlier
    /// switches applied.
    pub(crate) fn set(&self, current: &Config, enabled: bool) {
        let mut all = self.0.lock();
        let configured = current.clone();
        let switched = Switched { configured, enabled };
        all.entry(current.slug.clone()).or_insert(switched).enabled = enabled;
    }

    /// Returns the entry of a server with its switch applied.
    pub(crate) fn apply<'a>(&self, configured: &'a Config) -> Cow<'a, Config> {
        let all = self.0.lock();
        match all.get(&configured.slug) {
            Some(&Switched { configured: ref known, enabled }) if known == configured => {
                Cow::Owned(Config { enabled, ..configured.clone() })
            }
            _ => Cow::Borrowed(configured),
        }
    }

    /// Drops switches of entries that have changed or are gone.
    pub(crate) fn keep(&self, configured: &[Config]) {
        self.0.lock().retain(|_, known| configured.contains(&known.configured));
    }
}
