//! The lists of a server that refuses to list without an account: those of a connected user, for
//! all or for that user alone, and until then a tool that connects the caller's account.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_accounts::{Holder, Listing};
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{
    Announcement, CallerIdentity, Catalog, Event, Item, ListKind, OwnLists, ResourceUpdate,
    ServerId, Status, Subscription, Upstream, UpstreamState,
};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{UserClient, UserClients};

/// The tool that stands for a server without lists.
const CONNECT_TOOL: &str = "connect";
/// Interval at which a request checks whether the lists of its caller have been read.
const LISTS_POLL: Duration = Duration::from_millis(20);

impl UserClients {
    /// Returns whether there are no lists without an account.
    pub(super) fn awaits_user(&self) -> bool {
        self.listing.catalog().version == 0 && self.lists_as_users()
    }

    /// Returns whether the lists that a user with an account sees have not been read.
    pub(super) fn awaits_lists(&self, user: &UserClient) -> bool {
        self.awaits_user() && !(self.is_listed_per_user() && user.client.catalog().version > 0)
    }

    pub(super) fn is_listed_per_user(&self) -> bool {
        self.settings.listing == Listing::PerUser
    }

    /// Returns whether the lists are those of users, because the server refuses to list without an
    /// account. That is no failure of the server.
    pub(crate) fn lists_as_users(&self) -> bool {
        matches!(self.settings.listing, Listing::FirstUser | Listing::PerUser)
            && self.listing.status().state == UpstreamState::NeedsAuth
    }

    /// Returns how the lists of a caller's account differ from the shared lists.
    pub(super) fn lists_of(&self, caller: CallerIdentity<'_>) -> Option<Arc<OwnLists>> {
        let user = self.find_caller(caller)?;
        let own = user.client.catalog();
        let shared = self.listing.catalog();
        if own.version == 0 {
            return None;
        }
        let mut known = user.lists.lock();
        match &*known {
            Some((versions, lists)) if *versions == (own.version, shared.version) => {
                Some(Arc::clone(lists))
            }
            _ => {
                let lists = Arc::new(OwnLists::compare(&own, &self.catalog(), None));
                *known = Some(((own.version, shared.version), Arc::clone(&lists)));
                Some(lists)
            }
        }
    }

    /// Waits until the lists of a caller's account have been read, if there is an account.
    pub(super) async fn wait_for_lists_of(&self, caller: CallerIdentity<'_>) {
        if self.lists_of(caller).is_some() {
            return;
        }
        let Ok(holder) = self.holder_of(caller) else { return };
        let Ok(account) = self.accounts.load(self.slug(), &holder).await else { return };
        if account.is_connectable() && !account.is_connected() {
            return;
        }
        let Ok(user) = self.find(&holder).await else { return };
        user.client.revive();
        while user.client.catalog().version == 0 && !has_failed(&user.client.status()) {
            tokio::time::sleep(LISTS_POLL).await;
        }
    }

    /// Lets clients compare their lists, because those of a user have changed.
    pub(super) fn tell_lists(&self) {
        if self.is_listed_per_user() {
            let server = ServerId::of(self);
            self.send(Event::Announced(Announcement { server, session: None, lists: Vec::new() }));
        }
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

    /// Returns whether no open client is the source of the lists.
    pub(super) fn lacks_source(&self) -> bool {
        let open = self.open.lock();
        let source = self.source.lock();
        source.as_ref().is_none_or(|known| !open.contains_key(known))
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
        let tool = Item { key: CONNECT_TOOL.into(), text, headers: None };
        // Without announced changes, so that clients do not cache it beyond the first account.
        let is_open = self.is_listed_per_user();
        let offers = Offers {
            tools: true,
            prompts: is_open,
            resources: is_open,
            completions: is_open,
            ..Offers::default()
        };
        // Differs from the version of any list.
        let mut catalog = Catalog { version: u64::MAX, offers, ..Catalog::default() };
        catalog.set_items(ListKind::Tools, vec![tool]);
        catalog
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
                Some(Event::Changed { .. }) => clients.tell_lists(),
                Some(Event::Updated(update)) if update.on == Subscription::Shared => {
                    if let Some(number) = clients.watches.number(&holder) {
                        let on = Subscription::Account(number);
                        clients.send(Event::Updated(ResourceUpdate { on, ..update }));
                    }
                }
                // A task is read with the account of each caller that follows it.
                Some(event @ (Event::Updated(_) | Event::Task { .. })) => clients.send(event),
                Some(_) => {}
            }
        }
    }
}

/// Returns whether lists cannot be read now.
fn has_failed(status: &Status) -> bool {
    status.list_failure.is_some()
        || !matches!(
            status.state,
            UpstreamState::Pending | UpstreamState::Resting | UpstreamState::Connected
        )
}
