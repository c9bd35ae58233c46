//! Subscriptions to resources and tasks: each is made with the account of its caller, and its
//! updates are for this caller alone. They outlast a change of the account.

use std::sync::Arc;
use std::time::Duration;

use lockgate_accounts::Holder;
use lockgate_admission::spawn;
use lockgate_upstream::{
    Caller, CallerIdentity, Client, Event, ServerId, Subscription, Topic, Upstream, UpstreamError,
    UpstreamErrorKind,
};

use super::watches::WatchedTopic;
use super::{OpenClients, UserClient, UserClients};

/// Number of clients with which a new subscription is tried, if its user connects other accounts
/// meanwhile.
const MAX_CLIENTS: usize = 3;

impl UserClients {
    /// Makes a subscription with the client of the caller's account, and adds it; both again if the
    /// client was replaced meanwhile. One that would let a user's access tokens keep more than half
    /// of the connections is refused.
    pub(super) async fn watch(
        &self,
        topic: &Topic,
        caller: &Caller,
        identity: CallerIdentity<'_>,
    ) -> Result<Subscription, UpstreamError> {
        let holder = &self.holder_of(identity)?;
        for _ in 0..MAX_CLIENTS {
            let user = self.find(holder).await?;
            let made = user.client.subscribe(topic, caller, identity).await;
            let added = {
                // The lock makes this one step for `take`.
                let open = self.open.lock();
                if !open.get(holder).is_some_and(|current| Arc::ptr_eq(current, &user)) {
                    continue;
                }
                match &made {
                    Ok(Subscription::Shared) => {
                        let connections = self.listing.config().limits.client_connections;
                        let topic = (topic.clone(), caller.clone());
                        self.watches.add(holder, topic, connections.div_ceil(2))
                    }
                    _ => None,
                }
            };
            return match (made, added) {
                (Ok(Subscription::Shared), Some(number)) => Ok(Subscription::Account(number)),
                (Ok(Subscription::Shared), None) => {
                    user.client.unsubscribe(topic, Subscription::Shared).await;
                    Err(too_many_tokens())
                }
                (Err(failure), _) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                    Err(self.refuse_call(holder, &user.account).await)
                }
                (other, _) => other,
            };
        }
        let words = "the caller's account is being replaced";
        let failure = UpstreamErrorKind::Overloaded.error(words);
        Err(failure.retry_after(Duration::from_secs(1)))
    }

    /// Removes the client of a holder. Returns it and the holder's subscriptions.
    pub(super) fn take(&self, holder: &Holder) -> (Option<Arc<UserClient>>, Vec<WatchedTopic>) {
        let mut open = self.open.lock();
        (open.remove(holder), self.watches.of(holder))
    }

    pub(super) async fn unsubscribe_as(&self, topic: &Topic, given: Subscription) {
        let clients: Vec<Arc<Client>> = match given {
            Subscription::Account(number) => {
                let Some(holder) = self.watches.remove(number, topic) else { return };
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
            client.unsubscribe(topic, given).await;
        }
    }

    /// Subscribes again with another client of the holder.
    pub(super) async fn renew(&self, holder: &Holder, client: &Client, topics: Vec<WatchedTopic>) {
        let identity = CallerIdentity {
            organisation: Some(&holder.organisation),
            issuer: &holder.issuer,
            subject: &holder.subject,
            access_token: None,
        };
        for (topic, caller) in topics {
            if let Err(failure) = client.subscribe(&topic, &caller, identity).await {
                tracing::debug!(server = self.slug(), %failure, "a subscription is not renewed");
            }
        }
        self.tell_updated(holder);
    }

    /// Reports the holder's resources and tasks as updated, because an update may have been missed.
    pub(super) fn tell_updated(&self, holder: &Holder) {
        let Some(number) = self.watches.number(holder) else { return };
        for (topic, _) in self.watches.of(holder) {
            self.send(topic.updated(ServerId::of(self), Subscription::Account(number)));
        }
    }

    pub(super) fn send(&self, event: Event) {
        let _ = self.listing.events().send(event);
    }

    /// Ends the least recently used client without running calls and subscriptions.
    pub(super) fn make_room(&self, open: &mut OpenClients) -> Result<(), UpstreamError> {
        let idle = open.iter().filter(|(holder, user)| {
            let stats = user.client.stats();
            stats.is_none_or(|stats| stats.running + stats.waiting == 0)
                && self.watches.number(holder).is_none()
        });
        let oldest = idle.min_by_key(|(_, user)| *user.used.lock());
        let oldest = oldest.map(|(holder, _)| holder.clone());
        let Some(user) = oldest.and_then(|holder| open.remove(&holder)) else {
            let words = "all connections for users are in use (servers.NAME.client_connections)";
            let failure = UpstreamErrorKind::ClientConnections.error(words);
            return Err(failure.retry_after(Duration::from_secs(5)));
        };
        spawn(async move { user.client.close().await });
        Ok(())
    }
}

fn too_many_tokens() -> UpstreamError {
    let words = "the caller's access tokens have subscriptions on half of the connections for \
        users (servers.NAME.client_connections): end some, or use one token";
    UpstreamErrorKind::ClientConnections.error(words)
}
