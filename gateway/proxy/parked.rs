//! Running calls that ask their modern client questions in the legacy way. The client receives the
//! questions as the result of a request and sends the answers in the next; in between, the call is
//! parked here. An abandoned call ends, after its server has received a cancellation by the user.
//! Parked calls do not survive the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dashmap::DashMap;
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_protocol::revision::Revision;
use lockgate_text::hex;
use lockgate_upstream::{Answer, BoxFuture, ClientChannel, QuestionError, ServerId, UpstreamError};
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::answers::MAX_QUESTIONS;
use crate::client_channel::CallChannel;
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
    running: Option<(AbortOnDropHandle<()>, Lease)>,
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
        let handle = call.handle.clone().or_else(|| hex::random::<16>().map(Into::into));
        let Some(handle) = handle else {
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
            Exhausted::All | Exhausted::Organisation => {
                RequestError::too_many_parked("parked_calls")
            }
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
            running: Some((task, lease)),
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
        let Ok(runtime) = Handle::try_current() else { return };
        if has_unanswered && let Some(running) = self.running.take() {
            // The server must receive the cancelled questions before its call is cancelled, and
            // until then no other call of the client may share the lane.
            runtime.spawn(async move {
                tokio::time::sleep(CANCELLATION_GRACE_PERIOD).await;
                drop(running);
            });
        }
    }
}

/// Questions that arrive within this time are sent together.
const BATCH_WINDOW: Duration = Duration::from_millis(5);

pub(crate) struct Bridge {
    server: ServerId,
    /// The client's declared capabilities as JSON text.
    capabilities: Bytes,
    revision: Revision,
    /// Time for the client to answer a question.
    patience: Duration,
    /// Set if the client's first request had a progress token.
    wants_progress: bool,
    state: Mutex<BridgeState>,
    /// Signals a new question or the result.
    news: Notify,
}

#[derive(Default)]
struct BridgeState {
    /// The channel of the request that currently waits.
    channel: Option<Arc<CallChannel>>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    answer: Option<Result<Answer, UpstreamError>>,
    /// The table and the handle under which the call was parked.
    parked: Option<(Weak<ParkedCalls>, Box<str>)>,
    is_closed: bool,
}

/// A question that waits for its answer.
struct Asked {
    method: Method,
    /// JSON text of the `params`.
    params: Bytes,
    answer: oneshot::Sender<Bytes>,
}

impl Bridge {
    pub(crate) fn new(
        server: ServerId,
        capabilities: Bytes,
        revision: Revision,
        patience: Duration,
        channel: Option<Arc<CallChannel>>,
    ) -> Arc<Self> {
        let wants_progress = matches!(&channel, Some(channel) if channel.wants_progress());
        Arc::new(Self {
            server,
            capabilities,
            revision,
            patience,
            wants_progress,
            state: Mutex::new(BridgeState { channel, ..BridgeState::default() }),
            news: Notify::new(),
        })
    }

    /// Sets the channel of the client's next request.
    pub(crate) fn attach(&self, channel: Option<Arc<CallChannel>>) {
        self.state.lock().channel = channel;
    }

    /// Detaches the waiting request and records the handle of the parked call.
    fn park(&self, calls: Weak<ParkedCalls>, handle: &str) {
        let mut state = self.state.lock();
        state.channel = None;
        state.parked = Some((calls, handle.into()));
    }

    pub(crate) fn finish(&self, answer: Result<Answer, UpstreamError>) {
        self.state.lock().answer = Some(answer);
        self.news.notify_waiters();
    }

    /// Waits for the result of the call. Returns `None` if the server asks a question first.
    pub(crate) async fn step(&self) -> Option<Result<Answer, UpstreamError>> {
        loop {
            let news = self.news.notified();
            if let Some(answer) = self.state.lock().answer.take() {
                return Some(answer);
            }
            if !self.is_asking() {
                news.await;
                continue;
            }
            tokio::time::sleep(BATCH_WINDOW).await;
            let answer = self.state.lock().answer.take();
            // The server may have withdrawn the question.
            if answer.is_some() || self.is_asking() {
                return answer;
            }
        }
    }

    fn is_asking(&self) -> bool {
        !self.state.lock().asked.is_empty()
    }

    /// Returns the pending questions: key, method, and JSON text of the `params`.
    pub(crate) fn questions(&self) -> Vec<(String, Method, Bytes)> {
        let state = self.state.lock();
        let asked = state.asked.iter();
        asked.map(|(number, one)| (write_key(*number), one.method, one.params.clone())).collect()
    }

    /// Passes an answer to the server, if a question with this key is pending.
    pub(crate) fn answer(&self, key: &str, answer: Bytes) {
        let Some(number) = read_key(key) else { return };
        let asked = self.state.lock().asked.remove(&number);
        if let Some(asked) = asked {
            let _ = asked.answer.send(answer);
        }
    }

    /// Cancels all pending questions. Returns whether there were any.
    fn close(&self) -> bool {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.channel = None;
        let unanswered = std::mem::take(&mut state.asked);
        drop(state);
        !unanswered.is_empty()
    }

    /// Ends the parked call after a question timed out, once its server had time to react to the
    /// timeout.
    fn give_up(&self) {
        let Some((calls, handle)) = self.state.lock().parked.clone() else { return };
        tracing::info!(server = %self.server, "call abandoned: its question timed out");
        spawn(async move {
            tokio::time::sleep(CANCELLATION_GRACE_PERIOD).await;
            if let Some(calls) = calls.upgrade() {
                drop(calls.take(&handle));
            }
        });
    }

    fn enter(&self, method: Method, params: Bytes) -> Option<(u64, oneshot::Receiver<Bytes>)> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if state.is_closed || state.asked.len() >= MAX_QUESTIONS {
            return None;
        }
        state.next += 1;
        let number = state.next;
        state.asked.insert(number, Asked { method, params, answer: sender });
        drop(state);
        self.news.notify_waiters();
        Some((number, receiver))
    }

    fn channel(&self) -> Option<Arc<CallChannel>> {
        self.state.lock().channel.clone()
    }
}

impl ClientChannel for Bridge {
    fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    fn progress(&self, note: &Request) {
        if let Some(channel) = self.channel() {
            channel.progress(note);
        }
    }

    fn log(&self, note: &Request) {
        if let Some(channel) = self.channel() {
            channel.log(note);
        }
    }

    fn waiting(&self, _: Option<Duration>) {}

    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            if !question::may_ask(&self.capabilities, method, &params, self.revision) {
                return Err(QuestionError::Undeclared);
            }
            let Some((number, answer)) = self.enter(method, params) else {
                return Err(QuestionError::Gone);
            };
            // Withdraws the question when the server stops waiting for its answer.
            let _asked = guard(self, |bridge| {
                let asked = bridge.state.lock().asked.remove(&number);
                drop(asked);
            });
            match tokio::time::timeout(self.patience, answer).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) => Err(QuestionError::Gone),
                Err(_) => {
                    self.give_up();
                    Err(QuestionError::Timeout)
                }
            }
        })
    }
}

fn write_key(number: u64) -> String {
    format!("q{number}")
}

fn read_key(key: &str) -> Option<u64> {
    key.strip_prefix('q')?.parse().ok()
}
