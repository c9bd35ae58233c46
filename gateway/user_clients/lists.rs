//! The lists of a server that refuses to list without an account: those of a connected user, and
//! until then a tool that connects the caller's account.

use std::sync::Weak;

use lockgate_accounts::{Holder, Listing};
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{Catalog, Event, Item, Subscription, Upstream, UpstreamState};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::UserClients;

/// The tool that stands for a server without lists.
const CONNECT_TOOL: &str = "connect";

impl UserClients {
    /// Returns whether the lists will be those of the first user that connects.
    pub(crate) fn awaits_first_user(&self) -> bool {
        self.lists_as_users() && self.listing.catalog().version == 0
    }

    /// Returns whether the lists are those of users, because the server refuses to list without an
    /// account. That is no failure of the server.
    pub(crate) fn lists_as_users(&self) -> bool {
        self.settings.listing == Listing::FirstUser
            && self.listing.status().state == UpstreamState::NeedsAuth
    }

    /// Serves the lists of a user: of the first that has connected, while that user's client is
    /// open, then of another.
    fn take_lists(&self, holder: &Holder) {
        if self.listing.status().state == UpstreamState::Connected {
            return;
        }
        let open = self.open.lock();
        let mut source = self.source.lock();
        if source.as_ref().is_some_and(|known| known != holder && open.contains_key(known)) {
            return;
        }
        if let Some(user) = open.get(holder)
            && user.client.catalog().version > 0
        {
            self.listing.continue_from(&user.client);
            *source = Some(holder.clone());
        }
    }

    /// Serves the lists of another user if they were those of a holder whose client has ended. That
    /// user's lists may have been read before.
    pub(super) fn replace_lists_of(&self, ended: &Holder) {
        if self.source.lock().as_ref() != Some(ended) {
            return;
        }
        let others: Vec<Holder> = self.open.lock().keys().cloned().collect();
        for other in others {
            self.take_lists(&other);
        }
    }

    /// Returns the lists with a tool that connects the caller's account.
    pub(super) fn connect_catalog(&self) -> Catalog {
        let slug = self.slug();
        let text = json!({
            "name": CONNECT_TOOL,
            "description": format!(
                "Connects your account at the server {slug}, whose tools are listed afterwards."
            ),
            "inputSchema": {"type": "object"},
        });
        let text = text.to_string().into();
        let tools = vec![Item { key: CONNECT_TOOL.into(), text, headers: None }];
        // Without announced changes, so that clients do not cache it beyond the first account.
        let offers = Offers { tools: true, ..Offers::default() };
        // Differs from the version of any list.
        Catalog { version: u64::MAX, tools, offers, ..Catalog::default() }
    }

    /// Forwards the events of a holder's client that are for its subscriptions. Others, such as log
    /// messages, have no receiver. Takes over the first lists if they are needed.
    pub(super) async fn follow(
        clients: Weak<Self>,
        holder: Holder,
        mut events: broadcast::Receiver<Event>,
    ) {
        loop {
            let event = match events.recv().await {
                Ok(event) => Some(event),
                Err(RecvError::Lagged(_)) => None,
                Err(RecvError::Closed) => return,
            };
            let Some(clients) = clients.upgrade() else { return };
            match event {
                None => clients.tell_updated(&holder),
                Some(Event::Changed { .. }) if clients.settings.listing == Listing::FirstUser => {
                    clients.take_lists(&holder);
                }
                Some(Event::Updated { server, uri, on: Subscription::Shared }) => {
                    if let Some(number) = clients.watches.number(&holder) {
                        clients.send(Event::Updated {
                            server,
                            uri,
                            on: Subscription::Account(number),
                        });
                    }
                }
                // A task is read with the account of each caller that follows it.
                Some(event @ (Event::Updated { .. } | Event::Task { .. })) => clients.send(event),
                Some(_) => {}
            }
        }
    }
}
