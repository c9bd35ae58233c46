//! What a session is subscribed to: the URI that its client knows, and whose it is. The server's
//! own subscription is made and ended elsewhere; whoever asks for one that is being made waits for
//! what comes of it.

use std::sync::Arc;

use lockgate_upstream::{ServerId, Subscription, Upstream, UpstreamError};
use tokio::sync::watch;

use super::Session;

/// What became of a subscription.
pub(crate) enum Subscribed {
    New(NewSubscription),
    /// It is made, or is being made for an earlier request.
    Known(Outcome),
    TooMany,
}

/// A subscription that is to be made at its server.
pub(crate) struct NewSubscription {
    number: u64,
    outcome: watch::Sender<Option<Result<(), UpstreamError>>>,
}

/// What came of making a subscription; nothing as long as its server has not said.
#[derive(Clone, Debug)]
pub(crate) struct Outcome(watch::Receiver<Option<Result<(), UpstreamError>>>);

impl NewSubscription {
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome(self.outcome.subscribe())
    }

    /// Tells everybody who waits.
    pub(crate) fn settle(&self, made: Result<(), UpstreamError>) {
        self.outcome.send_replace(Some(made));
    }
}

impl Outcome {
    /// Waits until the server has confirmed the subscription, or has not.
    pub(crate) async fn wait(mut self) -> Result<(), UpstreamError> {
        let Ok(settled) = self.0.wait_for(Option::is_some).await else { return Ok(()) };
        settled.clone().unwrap_or(Ok(()))
    }
}

/// A subscription at a server.
#[derive(Clone, Debug)]
pub(crate) struct AtServer {
    pub(crate) server: ServerId,
    /// The server's own URI.
    pub(crate) own: String,
    /// On which connection it stands; unknown while the server has not confirmed it.
    pub(crate) given: Option<Subscription>,
    /// What distinguishes it from earlier ones to the same resource.
    number: u64,
    outcome: Outcome,
}

impl AtServer {
    /// Whether what is told on this connection may be meant for it.
    fn may_stand_on(&self, on: Subscription) -> bool {
        match self.given {
            Some(given) => given == on,
            None => true,
        }
    }

    /// Takes it back, in the background.
    pub(crate) fn give_back(self, server: Arc<dyn Upstream>) {
        if let Some(given) = self.given {
            tokio::spawn(async move { server.unsubscribe(&self.own, given).await });
        }
    }
}

impl Session {
    pub(crate) fn subscribe(
        &self,
        exposed: &str,
        server: ServerId,
        own: &str,
        max: usize,
    ) -> Subscribed {
        self.state(|state| {
            if let Some(known) = state.subscriptions.get(exposed) {
                return Subscribed::Known(known.outcome.clone());
            }
            if state.subscriptions.len() >= max {
                return Subscribed::TooMany;
            }
            state.next_subscription += 1;
            let number = state.next_subscription;
            let new = NewSubscription { number, outcome: watch::Sender::new(None) };
            let at = AtServer {
                server,
                own: own.to_owned(),
                given: None,
                number,
                outcome: new.outcome(),
            };
            state.subscriptions.insert(exposed.to_owned(), at);
            Subscribed::New(new)
        })
    }

    /// The server has confirmed a subscription; false when the client has taken it back meanwhile.
    pub(crate) fn confirm_subscription(
        &self,
        exposed: &str,
        new: &NewSubscription,
        given: Subscription,
    ) -> bool {
        self.state(|state| match state.subscriptions.get_mut(exposed) {
            Some(subscription) if subscription.number == new.number => {
                subscription.given = Some(given);
                true
            }
            _ => false,
        })
    }

    /// The server has not confirmed a subscription.
    pub(crate) fn forget_subscription(&self, exposed: &str, new: &NewSubscription) {
        self.state(|state| {
            if let Some(known) = state.subscriptions.get(exposed)
                && known.number == new.number
            {
                state.subscriptions.remove(exposed);
            }
        });
    }

    pub(crate) fn unsubscribe(&self, exposed: &str) -> Option<AtServer> {
        self.state(|state| state.subscriptions.remove(exposed))
    }

    pub(crate) fn has_subscriptions(&self) -> bool {
        matches!(self.state.lock().as_ref(), Some(state) if !state.subscriptions.is_empty())
    }

    /// Ends those whose exposed URI is not wanted any more, and gives what they were of.
    pub(crate) fn retain_subscriptions(&self, wanted: impl Fn(&str) -> bool) -> Vec<AtServer> {
        // Looked at without the lock: what is wanted takes a look at policies.
        let all: Vec<String> = self.state(|state| state.subscriptions.keys().cloned().collect());
        let mut ended = Vec::new();
        for exposed in all {
            if !wanted(&exposed) {
                ended.extend(self.unsubscribe(&exposed));
            }
        }
        ended
    }

    /// Takes all subscriptions, to give them back.
    pub(crate) fn take_subscriptions(&self) -> Vec<AtServer> {
        let mut state = self.state.lock();
        let Some(state) = state.as_mut() else { return Vec::new() };
        std::mem::take(&mut state.subscriptions).into_values().collect()
    }

    /// Whether the client subscribed to a resource that has changed, or to one that it is a part
    /// of, on the connection where the server told of it.
    pub(crate) fn subscribed(&self, server: &ServerId, own: &str, on: Subscription) -> bool {
        let state = self.state.lock();
        let Some(state) = state.as_ref() else { return false };
        for at in state.subscriptions.values() {
            if at.server == *server && at.may_stand_on(on) && covers(&at.own, own) {
                return true;
            }
        }
        false
    }
}

/// Whether a URI is another one, or a part of what that names.
pub(crate) fn covers(whole: &str, own: &str) -> bool {
    let Some(rest) = own.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_part_begins_where_a_name_ends() {
        for (own, covered) in [
            ("note://one", true),
            ("note://one/line/2", true),
            ("note://one?line=2", true),
            ("note://one#2", true),
            ("note://one-more", false),
            ("note://on", false),
        ] {
            assert_eq!(covers("note://one", own), covered, "{own}");
        }
        assert!(covers("file:///a/", "file:///a/b"));
    }
}
