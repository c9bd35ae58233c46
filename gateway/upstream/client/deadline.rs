//! The time that a call may take: the server's time, not that in which the client's user thinks
//! about a question. Nor does it keep its place at the server then, which others may want: it takes
//! one again before the answer goes there.

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
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, ClientChannel, QuestionError, ResponseSink};
use crate::failure::{Kind, UpstreamError};
use crate::future::BoxFuture;
use crate::shared::Shared;

/// A call that runs: the way back to its client, and where its place is kept.
pub(super) struct Turn {
    pub(super) channel: Option<Arc<dyn ClientChannel>>,
    clock: Option<Arc<Clock>>,
}

impl Turn {
    /// Keeps a place until the call has ended, or until its client is asked something. Gives it
    /// back where nobody can be asked.
    pub(super) fn keep(&self, place: Permit) -> Option<Permit> {
        let Some(clock) = &self.clock else { return Some(place) };
        clock.keep(place);
        None
    }
}

/// How long a call's place may be kept by a client that reads a large answer slowly.
const LONGEST_CLIENT_WAIT: Duration = Duration::from_secs(300);
/// Between two looks at how long the client has been waited for.
const LOOK: Duration = Duration::from_millis(100);

/// How long a server has to end a call that is given up, once it has heard that its question was
/// cancelled.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs `work` for at most `limit`, not counting the time in which the client is asked something.
pub(super) async fn within<T, F: Future<Output = Result<T, UpstreamError>>>(
    shared: &Arc<Shared>,
    limit: Duration,
    call: &Call<'_>,
    work: impl FnOnce(Turn) -> F,
) -> Result<T, UpstreamError> {
    let sink = call.sink.as_deref();
    if let Some(channel) = call.channel.clone().filter(|_| call.caller.interactive) {
        let clock = Arc::new(Clock::new(limit));
        let watched = Arc::new(Watched {
            inner: channel,
            clock: Arc::clone(&clock),
            shared: Arc::clone(shared),
            caller: call.caller.id,
        });
        let channel = Arc::clone(&watched) as Arc<dyn ClientChannel>;
        let turn = Turn { channel: Some(channel), clock: Some(clock) };
        return Box::pin(beside_questions(watched, sink, work(turn))).await;
    }
    // Pinned here, because a future that is handed on is kept twice.
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
        until = later.max(now + LOOK);
    }
}

fn late(limit: Duration) -> UpstreamError {
    let words = format!("the server did not answer within {} s", limit.as_secs());
    UpstreamError::new(Kind::Timeout, words).after_send()
}

/// The time in which the client did not read its answer, which is not the server's.
fn client_wait(sink: Option<&dyn ResponseSink>) -> Duration {
    sink.map_or(Duration::ZERO, ResponseSink::client_wait).min(LONGEST_CLIENT_WAIT)
}

async fn beside_questions<T>(
    watched: Arc<Watched>,
    sink: Option<&dyn ResponseSink>,
    work: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    let clock = &watched.clock;
    let _vacate = Vacate(Arc::clone(clock));
    let mut work = std::pin::pin!(work);
    // Made when it is needed: calls that wait for their users are many.
    let mut returning = OptionFuture::<BoxFuture<'_, ()>>::default();
    let mut until = clock.start + clock.limit;
    let refusal = loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            refusal = clock.refused() => break refusal,
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
        until = later.max(now + LOOK);
    };
    // The server hears that the user has cancelled, before its call ends.
    let _ = tokio::time::timeout(FAREWELL, work).await;
    Err(refusal)
}

/// How long the client has been asked things, and the call's place at the server.
struct Clock {
    start: Instant,
    limit: Duration,
    state: Mutex<ClockState>,
    /// Held by the answer that takes a place: those that come with it go there in the same one.
    returning: tokio::sync::Mutex<()>,
    /// There is a refusal.
    news: Notify,
    /// A server has taken a question back.
    taken_back: Notify,
    /// The call has ended.
    over: CancellationToken,
}

#[derive(Default)]
struct ClockState {
    /// Questions that the client has not answered.
    asking: u32,
    since: Option<Instant>,
    total: Duration,
    /// Answers that wait for a place.
    returning: u32,
    /// The call's place among those that run at the server.
    place: Option<Permit>,
    /// Why there was no further place.
    refusal: Option<UpstreamError>,
}

impl Clock {
    fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            state: Mutex::default(),
            returning: tokio::sync::Mutex::new(()),
            news: Notify::new(),
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

    fn has_place(&self) -> bool {
        self.state.lock().place.is_some()
    }

    /// Whether it is the server that is waited for.
    fn is_running(&self) -> bool {
        let state = self.state.lock();
        state.asking == 0 && state.returning == 0
    }

    /// When the server's time is over.
    fn deadline(&self, now: Instant) -> Instant {
        let state = self.state.lock();
        let asked = state.since.map_or(Duration::ZERO, |since| now - since);
        self.start + self.limit + state.total + asked
    }

    fn refuse(&self, refusal: UpstreamError) {
        self.state.lock().refusal = Some(refusal);
        self.news.notify_one();
    }

    async fn refused(&self) -> UpstreamError {
        loop {
            let refusal = self.state.lock().refusal.take();
            if let Some(refusal) = refusal {
                return refusal;
            }
            self.news.notified().await;
        }
    }
}

/// Gives back the place of a call that has ended.
struct Vacate(Arc<Clock>);

impl Drop for Vacate {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        self.0.over.cancel();
        let place = state.place.take();
        drop(state);
        drop(place);
    }
}

struct Watched {
    inner: Arc<dyn ClientChannel>,
    clock: Arc<Clock>,
    shared: Arc<Shared>,
    caller: CallerId,
}

impl Watched {
    /// Takes a place again when the server has taken its last question back, and so goes on
    /// without an answer.
    fn return_from_question(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.clock.is_running() {
                // A refusal ends the call.
                let _ = self.take_place().await;
            }
        })
    }

    /// Takes a place again before an answer goes to the server. Without one the call ends.
    async fn take_place(&self) -> Result<(), QuestionError> {
        let clock = &self.clock;
        let _returning = Returning::begin(clock);
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
        // What it has done until it asked is done.
        clock.refuse(refusal.after_send());
        Err(QuestionError::Gone)
    }
}

/// The time of a question, for which the call leaves its place.
struct Asking<'a> {
    clock: &'a Clock,
    is_answered: bool,
}

impl<'a> Asking<'a> {
    fn begin(clock: &'a Clock) -> Self {
        let mut state = clock.state.lock();
        state.asking += 1;
        state.since.get_or_insert_with(Instant::now);
        let place = state.place.take();
        drop(state);
        drop(place);
        Self { clock, is_answered: false }
    }

    /// The client has answered, and whoever takes the answer to the server takes a place.
    fn end(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.clock.state.lock();
        state.asking -= 1;
        if state.asking == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
        drop(state);
        if !self.is_answered {
            self.clock.taken_back.notify_one();
        }
    }
}

/// The time in which an answer waits for a place.
struct Returning<'a>(&'a Clock);

impl<'a> Returning<'a> {
    fn begin(clock: &'a Clock) -> Self {
        clock.state.lock().returning += 1;
        Self(clock)
    }
}

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        self.0.state.lock().returning -= 1;
    }
}

impl ClientChannel for Watched {
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
            // What is refused at once keeps nobody waiting.
            if let Some(answer) = (&mut asked).now_or_never() {
                return answer;
            }
            let asking = Asking::begin(&self.clock);
            let answer = asked.await;
            asking.end();
            self.take_place().await?;
            answer
        })
    }
}
