//! What a session's client follows: resources (its URI, the server and the server's URI), changes
//! of lists, and tasks. The subscription at the server is made and cancelled elsewhere; concurrent
//! requests for the same resource wait for its outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::Shared;
use lockgate_admission::spawn;
use lockgate_protocol::write;
use lockgate_upstream::{
    ListKind, ResourceUpdate, ServerId, Subscription, Topic, Upstream, UpstreamError,
};
use tokio::sync::oneshot;

use crate::session::{Log, Session};
use lockgate_proxy::catalog::View;
use lockgate_proxy::catalog::entry::{Audience, CHANGES, ListMarks, index_of_change};
use lockgate_proxy::directory::covers_resource;

/// The result of a request to subscribe.
pub(crate) enum Subscribed {
    New(NewSubscription),
    /// The subscription exists, or is being made for an earlier request.
    Known(Outcome),
    TooMany,
}

/// A subscription yet to be made at its server.
pub(crate) struct NewSubscription {
    number: u64,
    pub(crate) outcome: Outcome,
    /// Completes the outcome.
    pub(crate) settle: oneshot::Sender<Result<(), UpstreamError>>,
}

/// The outcome of a subscription; pending until the server has responded.
pub(crate) type Outcome = Shared<oneshot::Receiver<Result<(), UpstreamError>>>;

/// A subscription at a server.
#[derive(Clone, Debug)]
pub(crate) struct AtServer {
    pub(crate) server: ServerId,
    /// The server's own URI.
    pub(crate) own: String,
    /// The connection of the subscription; `None` until the server has confirmed it.
    pub(crate) given: Option<Subscription>,
    /// Distinguishes subscriptions to the same resource over time.
    number: u64,
    outcome: Outcome,
}

impl AtServer {
    /// Returns whether a notification on this connection may concern the subscription.
    fn may_stand_on(&self, on: Subscription) -> bool {
        match self.given {
            Some(given) => given == on,
            // It cannot be on an account other than the caller's, and that number is not yet known.
            None => !matches!(on, Subscription::Account(_)),
        }
    }

    /// Unsubscribes in the background.
    pub(crate) fn give_back(self, server: Arc<dyn Upstream>) {
        if let Some(given) = self.given {
            let topic = Topic::Resource(self.own);
            spawn(async move { server.unsubscribe(&topic, given).await });
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
            let (settle, outcome) = oneshot::channel();
            let outcome: Outcome = outcome.shared();
            let own = own.to_owned();
            let at = AtServer { server, own, given: None, number, outcome: outcome.clone() };
            state.subscriptions.insert(exposed.to_owned(), at);
            Subscribed::New(NewSubscription { number, outcome, settle })
        })
    }

    /// Records a confirmed subscription. Returns `false` if the client has already unsubscribed.
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

    /// Removes a subscription that the server did not confirm.
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

    /// Removes and returns the subscriptions with exposed URIs that are not `wanted`.
    pub(crate) fn retain_subscriptions(&self, wanted: impl Fn(&str) -> bool) -> Vec<AtServer> {
        // `wanted` evaluates policy, so it must not run under the lock.
        let all: Vec<String> = self.state(|state| state.subscriptions.keys().cloned().collect());
        let unwanted = all.into_iter().filter(|exposed| !wanted(exposed));
        unwanted.filter_map(|exposed| self.unsubscribe(&exposed)).collect()
    }

    pub(crate) fn take_subscriptions(&self) -> Vec<AtServer> {
        let mut state = self.state.lock();
        let Some(state) = state.as_mut() else { return Vec::new() };
        std::mem::take(&mut state.subscriptions).into_values().collect()
    }

    /// Returns whether the client has subscribed on this connection to a changed resource, or to a
    /// resource that contains it.
    pub(crate) fn subscribed(&self, update: &ResourceUpdate) -> bool {
        let state = self.state.lock();
        let Some(state) = state.as_ref() else { return false };
        state.subscriptions.values().any(|at| {
            at.server == update.server
                && at.may_stand_on(update.on)
                && covers_resource(&at.own, &update.uri)
        })
    }
}

#[cfg(test)]
mod tests;

impl Session {
    /// Returns the stream outside of calls, with pending notifications added.
    pub(crate) fn listen(&self) -> Arc<Log> {
        let log = self.outside();
        let dirty = self.dirty.swap(0, Ordering::AcqRel);
        for (at, method) in CHANGES.into_iter().enumerate() {
            if dirty & 1 << at != 0 {
                // Small, and therefore always accepted.
                let _ = log.push_once(write::notification(method.as_str(), b"{}").into());
            }
        }
        log
    }

    /// Notifies the client of lists that differ from the last announced state, and of lists that a
    /// server announced.
    pub(crate) fn notify_changes(&self, view: Option<&View>, announced: &[ListKind]) {
        let audience = Audience::of(self.interactive, true);
        let marks = view.map_or_else(ListMarks::none, |view| view.marks(audience));
        let before = std::mem::replace(&mut *self.lists.lock(), marks);
        for kind in before.changes(marks, announced) {
            self.list_changed(kind);
        }
    }

    /// Notifies the client that every list changed.
    pub(crate) fn distrust_lists(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.list_changed(kind);
        }
    }

    /// Sends or queues the notification that a list changed.
    fn list_changed(&self, kind: ListKind) {
        let at = index_of_change(kind);
        if self.is_listening() {
            let note = write::notification(CHANGES[at].as_str(), b"{}");
            let _ = self.outside().push_once(note.into());
        } else {
            self.dirty.fetch_or(1 << at, Ordering::AcqRel);
        }
    }
}

/// Tasks of a session; the oldest are dropped.
const MAX_TASKS: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct SessionTask {
    /// The id that the client received.
    token: String,
    server: ServerId,
    /// The server's own id.
    own: String,
    news: TaskNews,
}

/// The state of reading a changed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskNews {
    None,
    /// A read is in progress.
    Reading,
    /// The task changed again during the read.
    More,
}

impl SessionTask {
    pub(crate) fn new(token: String, server: ServerId, own: &str) -> Self {
        Self { token, server, own: own.to_owned(), news: TaskNews::None }
    }
}

impl Session {
    pub(crate) fn add_task(&self, task: SessionTask) {
        self.state(|state| {
            if state.tasks.len() >= MAX_TASKS {
                state.tasks.pop_front();
            }
            state.tasks.push_back(task);
        });
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        self.state(|state| state.tasks.iter().map(|task| task.token.clone()).collect())
    }

    pub(crate) fn forget_task(&self, token: &str) {
        self.state(|state| state.tasks.retain(|known| known.token != token));
    }

    /// Records a change of a task. Returns the client's id if the client follows the task and no
    /// read is in progress.
    pub(crate) fn begin_task_read(&self, server: &ServerId, own: &str) -> Option<String> {
        let mut state = self.state.lock();
        let tasks = &mut state.as_mut()?.tasks;
        let task = tasks.iter_mut().find(|task| task.server == *server && task.own == own)?;
        if task.news != TaskNews::None {
            task.news = TaskNews::More;
            return None;
        }
        task.news = TaskNews::Reading;
        Some(task.token.clone())
    }

    /// Ends a read. Returns whether the task changed again.
    pub(crate) fn end_task_read(&self, token: &str) -> bool {
        let mut state = self.state.lock();
        let Some(state) = state.as_mut() else { return false };
        let Some(task) = state.tasks.iter_mut().find(|task| task.token == token) else {
            return false;
        };
        let has_more = task.news == TaskNews::More;
        task.news = if has_more { TaskNews::Reading } else { TaskNews::None };
        has_more
    }
}
