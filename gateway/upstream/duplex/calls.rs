//! The calls in flight on one connection, by the number that is both their id and their progress
//! token.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_protocol::jsonrpc::Response;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::call::ClientChannel;
use crate::failure::{Kind, UpstreamError};

/// What an answer is sent through.
type Answer = oneshot::Sender<Result<Response, UpstreamError>>;

/// What a pending request is for.
pub(super) enum Role {
    /// Somebody's call, with the way back to them.
    Call(Option<Arc<dyn ClientChannel>>),
    /// A subscription that stays open.
    Listen,
}

/// What an answer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Waiting,
    /// Nobody waits any more: it was cancelled, or answered before.
    Late,
    /// An id that was never used.
    Never,
}

/// Whose calls have ended without an answer. The server may go on telling of them.
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
pub(super) struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    over: bool,
    highest: Option<u64>,
    calls: usize,
    unanswered: Unanswered,
    pending: HashMap<u64, (Answer, Role)>,
}

impl State {
    /// To be dropped outside the lock: nobody knows what a client channel does when it goes.
    fn take(&mut self, id: u64) -> Option<(Answer, Role)> {
        let taken = self.pending.remove(&id)?;
        if matches!(taken.1, Role::Call(_)) {
            self.calls -= 1;
        }
        Some(taken)
    }

    /// The only call in flight: a server's message that names none can only be for that one.
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
    /// Starts to wait for an answer.
    pub(super) fn enter(
        &self,
        id: u64,
        role: Role,
    ) -> Result<oneshot::Receiver<Result<Response, UpstreamError>>, UpstreamError> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        if state.over || state.pending.contains_key(&id) {
            return Err(UpstreamError::new(
                Kind::Unavailable,
                "the connection to the server is over",
            ));
        }
        state.highest = state.highest.max(Some(id));
        if matches!(role, Role::Call(_)) {
            state.calls += 1;
        }
        state.pending.insert(id, (answer, role));
        Ok(receiver)
    }

    /// Stops waiting; false when the answer has come already.
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

    /// Gives an answer to whoever waits for it.
    pub(super) fn settle(&self, id: u64, answer: Result<Response, UpstreamError>) -> Found {
        let mut state = self.0.lock();
        let Some((waiting, _role)) = state.take(id) else {
            return if state.highest >= Some(id) { Found::Late } else { Found::Never };
        };
        drop(state);
        // Nobody there: the caller went away this very moment, and its own clean-up finds nothing
        // to cancel.
        let _ = waiting.send(answer);
        Found::Waiting
    }

    /// The way back for one call.
    pub(super) fn channel(&self, id: u64) -> Option<Arc<dyn ClientChannel>> {
        match self.0.lock().pending.get(&id) {
            Some((_, Role::Call(channel))) => channel.clone(),
            _ => None,
        }
    }

    /// The id of the only call in flight.
    pub(super) fn only(&self) -> Option<u64> {
        self.0.lock().only().map(|(id, _)| id)
    }

    /// The client channel of the only call in flight: what names no call can only be about it,
    /// not after another principal's call was left, of which the server may still tell.
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

    /// Takes no more calls and gives those that wait.
    pub(super) fn end(&self) -> Vec<(u64, Answer)> {
        let mut state = self.0.lock();
        state.over = true;
        state.calls = 0;
        state.pending.drain().map(|(id, (answer, _))| (id, answer)).collect()
    }
}
