//! Subscriptions to resources: each is made with the account of its caller, and its updates are for
//! this caller alone. They outlast a change of the account.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_accounts::Holder;
use lockgate_admission::spawn;
use lockgate_upstream::{
    Caller, CallerIdentity, Client, Event, ServerId, Subscription, Upstream, UpstreamError,
    UpstreamErrorKind,
};

use super::{UserClient, UserClients};

impl UserClients {
    pub(super) async fn subscribe_as(
        &self,
        holder: &Holder,
        uri: &str,
        caller: &Caller,
        identity: CallerIdentity<'_>,
    ) -> Result<Subscription, UpstreamError> {
        let user = self.find(holder).await?;
        let UserClient { client, account, .. } = &*user;
        match client.subscribe(uri, caller, identity).await {
            Ok(Subscription::Shared) => {
                Ok(Subscription::Account(self.watches.add(holder, uri, caller)))
            }
            Err(failure) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                Err(self.refuse_call(holder, account).await)
            }
            other => other,
        }
    }

    pub(super) async fn unsubscribe_as(&self, uri: &str, given: Subscription) {
        let clients: Vec<Arc<Client>> = match given {
            Subscription::Account(number) => {
                let Some(holder) = self.watches.remove(number, uri) else { return };
                let open = self.open.lock();
                open.get(&holder).map(|user| Arc::clone(&user.client)).into_iter().collect()
            }
            // On the connection of a session, which one of the clients has.
            _ => self.open.lock().values().map(|user| Arc::clone(&user.client)).collect(),
        };
        let given = match given {
            Subscription::Account(_) => Subscription::Shared,
            other => other,
        };
        for client in clients {
            client.unsubscribe(uri, given).await;
        }
    }

    /// Subscribes again with another client of the holder.
    pub(super) async fn renew(
        &self,
        holder: &Holder,
        client: &Client,
        topics: Vec<(String, Caller)>,
    ) {
        let identity = CallerIdentity {
            organisation: Some(&holder.organisation),
            issuer: &holder.issuer,
            subject: &holder.subject,
            access_token: None,
        };
        for (uri, caller) in topics {
            if let Err(failure) = client.subscribe(&uri, &caller, identity).await {
                tracing::debug!(server = self.slug(), %failure, "a subscription is not renewed");
            }
        }
        self.tell_updated(holder);
    }

    /// Reports the holder's resources as updated, because an update may have been missed.
    pub(super) fn tell_updated(&self, holder: &Holder) {
        let Some(number) = self.watches.number(holder) else { return };
        for (uri, _) in self.watches.of(holder) {
            let server = ServerId::of(self);
            self.send(Event::Updated { server, uri, on: Subscription::Account(number) });
        }
    }

    pub(super) fn send(&self, event: Event) {
        let _ = self.listing.events().send(event);
    }

    /// Ends the least recently used client without running calls and subscriptions.
    pub(super) fn make_room(
        &self,
        open: &mut HashMap<Holder, Arc<UserClient>>,
    ) -> Result<(), UpstreamError> {
        let idle = open.iter().filter(|(holder, user)| {
            let stats = user.client.stats();
            stats.is_none_or(|stats| stats.running + stats.waiting == 0)
                && self.watches.number(holder).is_none()
        });
        let oldest = idle.min_by_key(|(_, user)| *user.used.lock());
        let oldest = oldest.map(|(holder, _)| holder.clone());
        let Some(user) = oldest.and_then(|holder| open.remove(&holder)) else {
            let words = "all connections for users are in use (servers.NAME.client_connections)";
            let failure = UpstreamError::new(UpstreamErrorKind::ClientConnections, words);
            return Err(failure.retry_after(Duration::from_secs(5)));
        };
        spawn(async move { user.client.close().await });
        Ok(())
    }
}
