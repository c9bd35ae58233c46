//! The time that a call may take: the server's time, not that in which the client's user thinks
//! about a question.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::{Call, Conversation, QuestionError, ResponseSink};
use crate::failure::{Failure, Kind};
use crate::future::BoxFuture;

/// The way back to the client, if there is one.
pub(crate) type Talk = Option<Arc<dyn Conversation>>;

/// How long a call's place may be kept by a client that reads a large answer slowly.
const LONGEST_CLIENT_WAIT: Duration = Duration::from_secs(300);
/// Between two looks at how long the client has been waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work` for at most `limit`, not counting the time in which the client is asked something.
pub(super) async fn within<T, F: Future<Output = Result<T, Failure>>>(
    limit: Duration,
    call: &Call<'_>,
    work: impl FnOnce(Talk) -> F,
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
    let mut work = std::pin::pin!(work(call.conversation.clone()));
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
    work: impl FnOnce(Talk) -> F,
) -> Result<Result<T, Failure>, Late> {
    let clock = Arc::new(Mutex::new(Clock::default()));
    let watched: Arc<dyn Conversation> =
        Arc::new(Watched { inner: conversation, clock: Arc::clone(&clock) });
    let start = Instant::now();
    let mut work = std::pin::pin!(work(Some(watched)));
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
        drop(state);
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
