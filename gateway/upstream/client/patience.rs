//! The time that a call may take: the server's time, not that in which the client's user thinks
//! about a question. Nor does it keep its place at the server then, which others may want.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_admission::Permit;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::{Call, Conversation, QuestionError, ResponseSink};
use crate::failure::{Failure, Kind};
use crate::future::BoxFuture;

/// The way back to the client, if there is one.
pub(crate) type Talk = Option<Arc<dyn Conversation>>;

/// A call that runs: the way back to its client, and where its place is kept.
pub(super) struct Turn {
    pub(super) conversation: Talk,
    clock: Option<Arc<Mutex<Clock>>>,
}

impl Turn {
    /// Keeps a place until the call has ended, or until its client is asked something. Gives it
    /// back where nobody can be asked.
    pub(super) fn keep(&self, place: Permit) -> Option<Permit> {
        let Some(clock) = &self.clock else { return Some(place) };
        clock.lock().place = Some(place);
        None
    }
}

/// How long a call's place may be kept by a client that reads a large answer slowly.
const LONGEST_CLIENT_WAIT: Duration = Duration::from_secs(300);
/// Between two looks at how long the client has been waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work` for at most `limit`, not counting the time in which the client is asked something.
pub(super) async fn within<T, F: Future<Output = Result<T, Failure>>>(
    limit: Duration,
    call: &Call<'_>,
    work: impl FnOnce(Turn) -> F,
) -> Result<T, Failure> {
    let late = || {
        Failure::new(
            Kind::Timeout,
            format!("the server did not answer within {} s", limit.as_secs()),
        )
        .after_send()
    };
    if let Some(conversation) = call.conversation.clone().filter(|_| call.caller.interactive) {
        let sink = call.sink.as_deref();
        return Box::pin(beside_questions(limit, conversation, sink, work))
            .await
            .unwrap_or_else(|_| Err(late()));
    }
    // Pinned here, because a future that is handed on is kept twice.
    let turn = Turn { conversation: call.conversation.clone(), clock: None };
    let mut work = std::pin::pin!(work(turn));
    let start = Instant::now();
    let mut until = start + limit;
    loop {
        if let Ok(result) = tokio::time::timeout_at(until, &mut work).await {
            return result;
        }
        let later = start + limit + client_wait(call.sink.as_deref());
        let now = Instant::now();
        if later <= now {
            return Err(late());
        }
        until = later.max(now + LOOK);
    }
}

/// The time in which the client did not read its answer, which is not the server's.
fn client_wait(sink: Option<&dyn ResponseSink>) -> Duration {
    sink.map_or(Duration::ZERO, ResponseSink::client_wait).min(LONGEST_CLIENT_WAIT)
}

async fn beside_questions<T, F: Future<Output = Result<T, Failure>>>(
    limit: Duration,
    conversation: Arc<dyn Conversation>,
    sink: Option<&dyn ResponseSink>,
    work: impl FnOnce(Turn) -> F,
) -> Result<Result<T, Failure>, Late> {
    let clock = Arc::new(Mutex::new(Clock::default()));
    let _vacate = Vacate(Arc::clone(&clock));
    let watched: Arc<dyn Conversation> =
        Arc::new(Watched { inner: conversation, clock: Arc::clone(&clock) });
    let start = Instant::now();
    let turn = Turn { conversation: Some(watched), clock: Some(Arc::clone(&clock)) };
    let mut work = std::pin::pin!(work(turn));
    let mut until = start + limit;
    loop {
        if let Ok(result) = tokio::time::timeout_at(until, &mut work).await {
            return Ok(result);
        }
        let now = Instant::now();
        let clock = clock.lock();
        let later = start + limit + clock.paused(now) + client_wait(sink);
        if clock.asking == 0 && later <= now {
            return Err(Late);
        }
        until = later.max(now + LOOK);
    }
}

/// The server's time is over.
struct Late;

/// How long the client has been asked things.
#[derive(Default)]
struct Clock {
    asking: u32,
    since: Option<Instant>,
    total: Duration,
    /// The call's place among those that run at the server.
    place: Option<Permit>,
}

/// Gives back the place of a call that has ended.
struct Vacate(Arc<Mutex<Clock>>);

impl Drop for Vacate {
    fn drop(&mut self) {
        let place = self.0.lock().place.take();
        drop(place);
    }
}

impl Clock {
    fn paused(&self, now: Instant) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

struct Watched {
    inner: Arc<dyn Conversation>,
    clock: Arc<Mutex<Clock>>,
}

struct Asking(Arc<Mutex<Clock>>);

impl Asking {
    fn begin(clock: &Arc<Mutex<Clock>>) -> Self {
        let mut state = clock.lock();
        state.asking += 1;
        state.since.get_or_insert_with(Instant::now);
        let place = state.place.take();
        drop(state);
        drop(place);
        Self(Arc::clone(clock))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.asking -= 1;
        if state.asking == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
    }
}

impl Conversation for Watched {
    fn wants_progress(&self) -> bool {
        self.inner.wants_progress()
    }

    fn progress(&self, note: &Request) {
        self.inner.progress(note);
    }

    fn log(&self, note: &Request) {
        self.inner.log(note);
    }

    fn waiting(&self) {
        self.inner.waiting();
    }

    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let _asking = Asking::begin(&self.clock);
            self.inner.ask(method, params).await
        })
    }
}
