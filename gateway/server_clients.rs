//! A server's clients: that of the gateway, and those of users with accounts of their own.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use lockgate_admission::spawn;
use lockgate_upstream::{Client, Config, Upstream};

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
