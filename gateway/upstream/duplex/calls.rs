//! The calls in flight on a connection, by the number that serves as both their id and their
//! progress token.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_protocol::jsonrpc::Response;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::call::ClientChannel;
use crate::failure::{Result, UpstreamError};

type Answer = oneshot::Sender<Result<Response>>;

/// The role of a request on its connection.
pub(crate) enum Role {
    /// A call, with the channel to its client.
    Call(Option<Arc<dyn ClientChannel>>),
    /// A request that stays open as long as the connection (`subscriptions/listen`). It is not
    /// counted when a message of the server is attributed to the only call in flight.
    Listen,
}

/// The state of the call that a response arrived for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundCall {
    Waiting,
    /// Cancelled, or answered before.
    Late,
    /// The id was never used.
    Never,
}

/// The principals of calls that ended without a response. The server may still send messages about
/// these calls.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Unanswered {
    #[default]
    Nobodys,
    Of(u64),
    Several,
}

impl Unanswered {
    fn and(self, principal: Option<u64>) -> Self {
        match (self, principal) {
            (Self::Nobodys, Some(one)) => Self::Of(one),
            (Self::Of(known), Some(one)) if known == one => self,
            _ => Self::Several,
        }
    }
}

#[derive(Default)]
pub(super) struct Calls(Mutex<CallsState>);

#[derive(Default)]
struct CallsState {
    over: bool,
    highest: Option<u64>,
    calls: usize,
    unanswered: Unanswered,
    pending: HashMap<u64, (Answer, Role)>,
}

impl CallsState {
    /// Removes a call. The result must be dropped outside the lock, because dropping a client
    /// channel may run arbitrary code.
    fn take(&mut self, id: u64) -> Option<(Answer, Role)> {
        let taken = self.pending.remove(&id)?;
        if matches!(taken.1, Role::Call(_)) {
            self.calls -= 1;
        }
        Some(taken)
    }

    /// Returns the only call in flight, to which a message without an id must belong.
    fn only(&self) -> Option<(u64, Option<&Arc<dyn ClientChannel>>)> {
        if self.calls != 1 {
            return None;
        }
        self.pending.iter().find_map(|(id, (_, role))| match role {
            Role::Call(channel) => Some((*id, channel.as_ref())),
            Role::Listen => None,
        })
    }
}

impl Calls {
    /// Registers a call and returns the receiver of its response.
    pub(super) fn enter(&self, id: u64, role: Role) -> Result<oneshot::Receiver<Result<Response>>> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        if state.over || state.pending.contains_key(&id) {
            return Err(UpstreamError::closed());
        }
        state.highest = state.highest.max(Some(id));
        if matches!(role, Role::Call(_)) {
            state.calls += 1;
        }
        state.pending.insert(id, (answer, role));
        Ok(receiver)
    }

    /// Removes a call that is no longer waited for; false if it was already answered.
    pub(super) fn leave(&self, id: u64) -> bool {
        let mut state = self.0.lock();
        let taken = state.take(id);
        if let Some((_, Role::Call(channel))) = &taken {
            let principal = channel.as_ref().map(|channel| channel.principal());
            state.unanswered = state.unanswered.and(principal);
        }
        drop(state);
        taken.is_some()
    }

    /// Completes a call with a response or an error.
    pub(super) fn settle(&self, id: u64, answer: Result<Response>) -> FoundCall {
        let mut state = self.0.lock();
        let Some((waiting, _role)) = state.take(id) else {
            return if state.highest >= Some(id) { FoundCall::Late } else { FoundCall::Never };
        };
        drop(state);
        // Fails if the caller has just gone away; its own clean-up then finds nothing to cancel.
        let _ = waiting.send(answer);
        FoundCall::Waiting
    }

    pub(super) fn channel(&self, id: u64) -> Option<Arc<dyn ClientChannel>> {
        match self.0.lock().pending.get(&id) {
            Some((_, Role::Call(channel))) => channel.clone(),
            _ => None,
        }
    }

    pub(super) fn only(&self) -> Option<u64> {
        self.0.lock().only().map(|(id, _)| id)
    }

    /// Returns the client channel of the only call in flight, to which messages without an id are
    /// attributed. Returns `None` after a call of another principal was abandoned, because the
    /// server may still send messages about that call.
    pub(super) fn running(&self) -> Option<Arc<dyn ClientChannel>> {
        let state = self.0.lock();
        let channel = state.only()?.1?;
        let is_certain = match state.unanswered {
            Unanswered::Nobodys => true,
            Unanswered::Of(principal) => principal == channel.principal(),
            Unanswered::Several => false,
        };
        is_certain.then(|| Arc::clone(channel))
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.lock().over
    }

    /// Rejects further calls and returns the waiting calls.
    pub(super) fn end(&self) -> Vec<(u64, Answer)> {
        let mut state = self.0.lock();
        state.over = true;
        state.calls = 0;
        state.pending.drain().map(|(id, (answer, _))| (id, answer)).collect()
    }
}
