//! Calls of sessions. Their messages form a resumable stream. A call continues after the
//! disconnection of its client until another call needs its slot at the server, and its client can
//! cancel it by the id of its request.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lockgate_admission::{Promise, spawn};
use lockgate_protocol::method::Method;
use lockgate_proxy::Gateway;
use lockgate_proxy::client_channel::Outlet;
use lockgate_proxy::context::RequestContext;
use lockgate_proxy::dispatch::{self, PermittedCall, RunningCall, start_call, write_final_text};
use lockgate_proxy::relay::{Relay, stream_message};
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::transport::{Reply, Text};
use lockgate_upstream::{BoxFuture, QuestionError, Upstream};
use tokio::sync::Notify;

use crate::session::{ABSENCE_GRACE_PERIOD, Log, Running, Session};
use crate::stream::{silence, stream_call};

/// Interval of checks for a client's return to its stream.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The context of an ended call, unless its client has cancelled it, and the response.
type Ended = (Option<Box<RequestContext>>, Result<Text, RequestError>);

/// Runs a call of a session. The reply becomes a stream of the session if a message precedes the
/// response.
pub(crate) async fn run_call(
    gateway: &Arc<Gateway>,
    session: Arc<Session>,
    call: PermittedCall,
    running: Running,
) -> Reply {
    let server = Arc::clone(call.server());
    let outlet = Arc::new(SessionOutlet::new(Arc::clone(&session)));
    let level = Some(session.wanted_level());
    let channel = call.open_channel(outlet.clone(), level);
    let (call, relay) = start_call(gateway, call, channel);
    let mut work = Detached::new(CancellableCall { call, running }, server, Arc::clone(&outlet));
    tokio::select! {
        biased;
        (context, answer) = &mut work => match Relay::ended(relay.as_ref(), &answer) {
            Some(reply) => reply,
            None => match (outlet.stream(), context) {
                (None, None) => silence(),
                (None, Some(context)) => dispatch::write_reply(&context, answer),
                (Some(log), context) => {
                    finish_stream(&session, &log, (context, answer));
                    stream_call(gateway, &session, &log)
                }
            },
        },
        log = outlet.begun() => {
            let server = work.server();
            let rest = (Arc::clone(&session), Arc::clone(&log));
            spawn(async move {
                let (session, log) = rest;
                tokio::select! {
                    ended = work.take() => finish_stream(&session, &log, ended),
                    _promise = reclaim(&*server, Some(&log)) => log.finish(None, Text::default()),
                }
            });
            stream_call(gateway, &session, &log)
        }
        (relay, pieces) = Relay::pieces(relay.as_ref()) => stream_message(relay, work, pieces),
    }
}

/// Ends a stream with the response, or without one if the client has cancelled the call.
fn finish_stream(session: &Session, log: &Log, (context, answer): Ended) {
    session.cancel_questions(log);
    let Some(context) = context else { return log.finish(None, Text::default()) };
    let instead = context.write_error(&RequestError::dropped());
    log.finish(Some(write_final_text(&context, answer)), instead.into());
}

/// A running call that its client can cancel.
struct CancellableCall {
    call: RunningCall,
    running: Running,
}

impl Future for CancellableCall {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        if let Poll::Ready((context, answer)) = Pin::new(&mut self.call).poll(cx) {
            return Poll::Ready((Some(context), answer));
        }
        ready!(self.running.poll_cancelled(cx));
        Poll::Ready((None, Err(RequestError::withdrawn())))
    }
}

/// A call that moves to a background task if dropped before its end. It is aborted there when
/// another call needs the slot.
struct Detached {
    work: Option<CancellableCall>,
    server: Arc<dyn Upstream>,
    outlet: Arc<SessionOutlet>,
}

impl Detached {
    fn new(work: CancellableCall, server: Arc<dyn Upstream>, outlet: Arc<SessionOutlet>) -> Self {
        Self { work: Some(work), server, outlet }
    }

    fn server(&self) -> Arc<dyn Upstream> {
        Arc::clone(&self.server)
    }

    /// Runs the call to its end, without moving it to a background task on drop.
    async fn take(mut self) -> Ended {
        match self.work.take() {
            Some(work) => work.await,
            None => std::future::pending().await,
        }
    }
}

impl Future for Detached {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let ended = ready!(Pin::new(work).poll(cx));
        self.work = None;
        Poll::Ready(ended)
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.outlet.left.notify_one();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(&self.server);
        runtime.spawn(async move {
            tokio::select! {
                _ = work => {}
                _promise = reclaim(&*server, None) => {
                    tracing::info!(server = server.slug(), "call abandoned: its client is gone \
                        and others are waiting");
                }
            }
        });
    }
}

/// Completes when an abandoned call has to free its slot for a waiting call. The caller keeps the
/// promise until the abandoned call has ended.
async fn reclaim<'a>(server: &'a dyn Upstream, stream: Option<&Log>) -> Promise<'a> {
    loop {
        // A call with a client is not aborted for others.
        while !is_abandoned(stream) {
            tokio::time::sleep(ABSENCE_GRACE_PERIOD / 10).await;
        }
        let promise = server.calls().wanted().await;
        if is_abandoned(stream) {
            return promise;
        }
    }
}

/// Returns whether the client of a detached call is gone; with a stream, it may come back to read.
fn is_abandoned(stream: Option<&Log>) -> bool {
    stream.is_none_or(Log::is_abandoned)
}

/// The stream of a call, created with its first message.
struct SessionOutlet {
    session: Arc<Session>,
    log: OnceLock<Arc<Log>>,
    begun: Notify,
    /// Signals that the client disconnected before there was a stream.
    left: Notify,
}

impl SessionOutlet {
    fn new(session: Arc<Session>) -> Self {
        Self { session, log: OnceLock::new(), begun: Notify::new(), left: Notify::new() }
    }

    /// Returns the stream, creating it if needed.
    fn begin(&self) -> &Arc<Log> {
        let log = self.log.get_or_init(|| self.session.new_log());
        self.begun.notify_one();
        log
    }

    /// Waits for the first message and returns the stream.
    async fn begun(&self) -> Arc<Log> {
        loop {
            if let Some(log) = self.stream() {
                return log;
            }
            self.begun.notified().await;
        }
    }

    /// Returns the stream, if it has begun.
    fn stream(&self) -> Option<Arc<Log>> {
        self.log.get().cloned()
    }
}

impl Outlet for SessionOutlet {
    fn send(&self, text: Bytes) {
        self.begin().push(text.into());
    }

    fn send_progress(&self, text: Bytes) {
        self.begin().push_progress(text);
    }

    fn ask<'a>(
        &'a self,
        slug: &'a str,
        method: Method,
        params: &'a [u8],
        limit: Option<Duration>,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(
            async move { self.session.question(self.begin(), slug, method, params, limit).await },
        )
    }

    fn poll_from_now_on(&self, pause: Option<Duration>) {
        self.begin().poll_from_now_on(pause);
    }

    fn client_left(&self) -> BoxFuture<'_, ()> {
        let lost = async {
            loop {
                match self.log.get() {
                    None => return self.left.notified().await,
                    Some(log) if log.is_abandoned() => return,
                    Some(_) => tokio::time::sleep(CHECK_INTERVAL).await,
                }
            }
        };
        Box::pin(async move {
            tokio::select! {
                () = lost => {}
                () = self.session.over.cancelled() => {}
            }
        })
    }

    fn has_stream(&self) -> bool {
        self.log.get().is_some()
    }
}
