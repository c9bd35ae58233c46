//! The timeout of a call. It counts the server's time only, not the time in which the user answers
//! a question. Meanwhile the call gives its permit back to other calls, and acquires it again
//! before the answer is sent to the server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use lockgate_admission::{CallerId, Permit};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::{Notify, SetOnce};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::call::{Call, ClientChannel, QuestionError, ResponseSink};
use crate::failure::{Result, UpstreamError};
use crate::shared::Shared;

/// A running call: the channel to its client, and the clock that holds its permit.
pub(super) struct Turn {
    pub(super) channel: Option<Arc<dyn ClientChannel>>,
    clock: Option<Arc<QuestionClock>>,
}

impl Turn {
    /// Stores the permit until the call ends or its client is asked a question. Returns the permit
    /// if the call cannot ask questions.
    pub(super) fn keep(&self, place: Permit) -> Option<Permit> {
        let Some(clock) = &self.clock else { return Some(place) };
        clock.keep(place);
        None
    }
}

/// Longest time for which a client that reads a large answer slowly may extend its call.
const MAX_CLIENT_WAIT: Duration = Duration::from_secs(300);
/// Minimum interval between checks of the time spent waiting for the client.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time for a server to end an abandoned call after the cancellation of its question.
const CANCELLATION_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Runs `work` for at most `limit`, excluding the time in which questions are open.
pub(super) async fn within<T, F: Future<Output = Result<T>>>(
    shared: &Arc<Shared>,
    limit: Duration,
    call: &Call<'_>,
    work: impl FnOnce(Turn) -> F,
) -> Result<T> {
    let sink = call.sink.as_deref();
    if let Some(channel) = call.channel.clone().filter(|_| call.caller.interactive) {
        let clock = Arc::new(QuestionClock::new(limit));
        let watched = Arc::new(WatchedCall {
            inner: channel,
            clock: Arc::clone(&clock),
            shared: Arc::clone(shared),
            caller: call.caller.id,
        });
        let channel = Arc::clone(&watched) as Arc<dyn ClientChannel>;
        let turn = Turn { channel: Some(channel), clock: Some(clock) };
        return Box::pin(beside_questions(watched, sink, work(turn))).await;
    }
    // Pinned here, because a future that is passed as an argument is stored twice.
    let turn = Turn { channel: call.channel.clone(), clock: None };
    let mut work = std::pin::pin!(work(turn));
    let start = Instant::now();
    let mut until = start + limit;
    loop {
        if let Ok(result) = tokio::time::timeout_at(until, &mut work).await {
            return result;
        }
        let later = start + limit + client_wait(sink);
        let now = Instant::now();
        if later <= now {
            return Err(late(limit));
        }
        until = later.max(now + MIN_CHECK_INTERVAL);
    }
}

fn late(limit: Duration) -> UpstreamError {
    let words = format!("the server did not answer within {} s", limit.as_secs());
    UpstreamError::timeout(words)
}

/// Returns the time for which the client did not read its answer, which the server is not charged
/// for.
fn client_wait(sink: Option<&dyn ResponseSink>) -> Duration {
    sink.map_or(Duration::ZERO, ResponseSink::client_wait).min(MAX_CLIENT_WAIT)
}

async fn beside_questions<T>(
    watched: Arc<WatchedCall>,
    sink: Option<&dyn ResponseSink>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let clock = &watched.clock;
    let _vacate = guard(clock, |clock| clock.end());
    let mut work = std::pin::pin!(work);
    // Boxed on demand: many calls wait for their users.
    let mut returning = OptionFuture::<BoxFuture<'_, ()>>::default();
    let mut until = clock.start + clock.limit;
    let refusal = loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            refusal = clock.refusal.wait() => break refusal.clone(),
            () = clock.taken_back.notified() => {
                returning = Some(watched.return_from_question()).into();
            }
            Some(()) = &mut returning => returning = OptionFuture::default(),
            () = tokio::time::sleep_until(until) => {}
        }
        let now = Instant::now();
        let later = clock.deadline(now) + client_wait(sink);
        if later <= now && clock.is_running() {
            return Err(late(clock.limit));
        }
        until = later.max(now + MIN_CHECK_INTERVAL);
    };
    // Lets the server receive the cancellation before its call ends.
    let _ = tokio::time::timeout(CANCELLATION_GRACE_PERIOD, work).await;
    Err(refusal)
}

/// The time of a call spent on questions, and the call's permit at the server.
struct QuestionClock {
    start: Instant,
    limit: Duration,
    state: Mutex<QuestionClockState>,
    /// Held while an answer acquires the permit, which concurrent answers then share.
    returning: tokio::sync::Mutex<()>,
    /// Why no further permit was granted.
    refusal: SetOnce<UpstreamError>,
    /// Signals that the server withdrew a question.
    taken_back: Notify,
    /// Cancelled when the call has ended.
    over: CancellationToken,
}

#[derive(Default)]
struct QuestionClockState {
    asking: u32,
    since: Option<Instant>,
    total: Duration,
    /// Number of answers waiting for a permit.
    returning: u32,
    place: Option<Permit>,
}

impl QuestionClock {
    fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            state: Mutex::default(),
            returning: tokio::sync::Mutex::new(()),
            refusal: SetOnce::new(),
            taken_back: Notify::new(),
            over: CancellationToken::new(),
        }
    }

    fn keep(&self, place: Permit) {
        let mut state = self.state.lock();
        if !self.over.is_cancelled() {
            state.place = Some(place);
        }
    }

    /// Stops the server's time and releases the permit, while a question is open.
    fn pause(&self) {
        let mut state = self.state.lock();
        state.asking += 1;
        state.since.get_or_insert_with(Instant::now);
        let place = state.place.take();
        drop(state);
        drop(place);
    }

    fn resume(&self) {
        let mut state = self.state.lock();
        state.asking -= 1;
        if state.asking == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
    }

    fn has_place(&self) -> bool {
        self.state.lock().place.is_some()
    }

    /// Reports whether the call waits for the server, not for the client or a permit.
    fn is_running(&self) -> bool {
        let state = self.state.lock();
        state.asking == 0 && state.returning == 0
    }

    /// Returns the end of the server's time, extended by the time of open and past questions.
    fn deadline(&self, now: Instant) -> Instant {
        let state = self.state.lock();
        let asked = state.since.map_or(Duration::ZERO, |since| now - since);
        self.start + self.limit + state.total + asked
    }

    /// Releases the permit at the end of the call.
    fn end(&self) {
        let mut state = self.state.lock();
        self.over.cancel();
        let place = state.place.take();
        drop(state);
        drop(place);
    }
}

struct WatchedCall {
    inner: Arc<dyn ClientChannel>,
    clock: Arc<QuestionClock>,
    shared: Arc<Shared>,
    caller: CallerId,
}

impl WatchedCall {
    /// Takes a permit again when the server has withdrawn its last question and so continues
    /// without an answer.
    fn return_from_question(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.clock.is_running() {
                // A refusal ends the call.
                let _ = self.take_place().await;
            }
        })
    }

    /// Acquires a permit again before an answer is sent to the server. If that fails, the call
    /// ends.
    async fn take_place(&self) -> Result<(), QuestionError> {
        let clock = &self.clock;
        clock.state.lock().returning += 1;
        let _returning = guard(clock, |clock| clock.state.lock().returning -= 1);
        let _turn = clock.returning.lock().await;
        if clock.has_place() {
            return Ok(());
        }
        let deadline = clock.deadline(Instant::now());
        let entering = tokio::time::timeout_at(deadline, self.shared.enter(self.caller));
        let refusal = tokio::select! {
            () = clock.over.cancelled() => return Err(QuestionError::Gone),
            entered = entering => match entered {
                Ok(Ok(place)) => {
                    clock.keep(place);
                    return Ok(());
                }
                Ok(Err(refusal)) => refusal,
                Err(_) => late(clock.limit),
            },
        };
        // The call may have had effects before its question.
        let _ = clock.refusal.set(refusal.after_send());
        Err(QuestionError::Gone)
    }
}

impl ClientChannel for WatchedCall {
    fn principal(&self) -> u64 {
        self.caller.principal()
    }

    fn wants_progress(&self) -> bool {
        self.inner.wants_progress()
    }

    fn progress(&self, note: &Request) {
        self.inner.progress(note);
    }

    fn log(&self, note: &Request) {
        self.inner.log(note);
    }

    fn waiting(&self, pause: Option<Duration>) {
        self.inner.waiting(pause);
    }

    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let mut asked = self.inner.ask(method, params);
            // A question that is refused at once does not give up the permit.
            if let Some(answer) = (&mut asked).now_or_never() {
                return answer;
            }
            self.clock.pause();
            let open = guard(&self.clock, |clock| {
                clock.resume();
                clock.taken_back.notify_one();
            });
            let answer = asked.await;
            ScopeGuard::into_inner(open).resume();
            self.take_place().await?;
            answer
        })
    }
}
