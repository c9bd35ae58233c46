//! Running calls that ask their modern client questions in the legacy way. The client receives the
//! questions as the result of a request and sends the answers in the next; in between, the call is
//! parked here. An abandoned call ends, after its server has received a cancellation by the user.
//! Parked calls do not survive the process.

mod bridge;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use lockgate_authn::Principal;
use lockgate_text::hex;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use bridge::Bridge;

use crate::config::Limits;
use crate::modern_clients::Lease;
use crate::quota::{Exhausted, QuotaPermit, Quotas};
use crate::rescue::RequestError;

/// Time for a server to end an abandoned call after its questions were cancelled.
const CANCELLATION_GRACE_PERIOD: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct ParkedCalls {
    calls: DashMap<Box<str>, ParkedCall>,
    shares: Arc<Quotas>,
}

/// A call at a server that may ask questions while it runs. Dropping it cancels the call.
pub(crate) struct ParkedCall {
    pub(crate) bridge: Arc<Bridge>,
    task: Option<AbortOnDropHandle<()>>,
    lease: Option<Lease>,
    /// Unguessable. Set once the call has been parked.
    handle: Option<Box<str>>,
    since: Instant,
    share: Option<QuotaPermit>,
    rounds: usize,
}

impl ParkedCalls {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Parks a call until its client sends answers, at most for the timeout of a question. Returns
    /// the handle of the call.
    ///
    /// # Errors
    /// There are too many parked calls, in total or of this principal or organisation, or the call
    /// exceeded its rounds of questions.
    pub(crate) fn keep(
        self: &Arc<Self>,
        mut call: ParkedCall,
        principal: &Principal,
        slug: &str,
        limits: &Limits,
    ) -> Result<Box<str>, RequestError> {
        call.rounds += 1;
        if call.rounds > limits.question_rounds {
            return Err(RequestError::too_many_rounds(slug));
        }
        if call.share.is_none() {
            call.share = Some(self.take_share(principal, limits)?);
        }
        if self.calls.len() >= limits.parked_calls {
            return Err(RequestError::too_many_parked("parked_calls"));
        }
        let Some(handle) = call.handle.clone().or_else(new_handle) else {
            return Err(RequestError::too_many_parked("parked_calls"));
        };
        call.handle = Some(handle.clone());
        call.since = Instant::now();
        call.bridge.park(Arc::downgrade(self), &handle);
        self.calls.insert(handle.clone(), call);
        Ok(handle)
    }

    /// Counts a waiting call of this principal until the permit is dropped.
    pub(crate) fn take_share(
        &self,
        principal: &Principal,
        limits: &Limits,
    ) -> Result<QuotaPermit, RequestError> {
        let most = limits.parked_calls_per_principal;
        let share = self.shares.take_of_all(principal, most, limits.parked_calls);
        share.map_err(|exhausted| match exhausted {
            Exhausted::Principal => RequestError::too_many_parked("parked_calls_per_principal"),
            Exhausted::Organisation => RequestError::too_many_parked("parked_calls"),
        })
    }

    pub(crate) fn take(&self, handle: &str) -> Option<ParkedCall> {
        let (_, call) = self.calls.remove(handle)?;
        Some(call)
    }

    pub(crate) fn expire(&self, longest: Duration) {
        self.calls.retain(|_, call| call.since.elapsed() <= longest);
    }
}

impl ParkedCall {
    pub(crate) fn new(bridge: Arc<Bridge>, task: AbortOnDropHandle<()>, lease: Lease) -> Self {
        Self {
            bridge,
            task: Some(task),
            lease: Some(lease),
            handle: None,
            since: Instant::now(),
            share: None,
            rounds: 0,
        }
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        let has_unanswered = self.bridge.close();
        let Some(task) = self.task.take() else { return };
        if !has_unanswered {
            return;
        }
        // The server must receive the cancelled questions before its call is cancelled, and until
        // then no other call of the client may share the lane.
        let lease = self.lease.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(CANCELLATION_GRACE_PERIOD).await;
                drop((task, lease));
            });
        }
    }
}

/// Returns an unguessable handle.
pub(crate) fn new_handle() -> Option<Box<str>> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).ok()?;
    Some(hex::encode(&random).into())
}
