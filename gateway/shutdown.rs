//! What ends the gateway from outside, and who may look inside while it runs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use lockgate_listener::{Drain, Remote};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::app::{App, FAREWELL, GRACE};

/// The signals that end the gateway.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Which of them came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// SIGTERM, which orchestrators send.
    Terminate,
    /// SIGINT: somebody sits at a terminal and waits.
    Interrupt,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        Ok(Self { terminate, interrupt })
    }

    pub(crate) async fn next(&mut self) -> Cause {
        tokio::select! {
            _ = self.terminate.recv() => Cause::Terminate,
            _ = self.interrupt.recv() => Cause::Interrupt,
        }
    }
}

/// Answers on for a while, so that whoever leads clients here can lead them elsewhere. Another signal cuts it short.
pub(crate) async fn drain(drain: Option<Drain>, time: Duration, cause: Cause, signals: &mut Signals) {
    if let Some(drain) = drain {
        drain.begin();
    }
    if cause == Cause::Interrupt || time.is_zero() {
        return;
    }
    tracing::info!("draining: requests are answered for {} s more (http.drain)", time.as_secs());
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        _ = signals.next() => tracing::info!("draining cut short by another signal"),
    }
}

/// Waits for the workers to end; another signal ends the calls that run. Gives the number of connections that were cut.
pub(crate) async fn join(workers: Vec<std::thread::JoinHandle<usize>>, app: &App, signals: &mut Signals) -> usize {
    let all = move || workers.into_iter().filter_map(|worker| worker.join().ok()).sum::<usize>();
    let mut joined: JoinHandle<usize> = tokio::task::spawn_blocking(all);
    tokio::select! {
        cut = &mut joined => return cut.unwrap_or_default(),
        () = tokio::time::sleep(GRACE + FAREWELL * 2) => {}
        _ = signals.next() => tracing::info!("running calls end now: another signal came"),
    }
    app.gateway.end();
    let cut = tokio::time::timeout(FAREWELL, joined).await;
    cut.ok().and_then(Result::ok).unwrap_or_default()
}

/// `/metrics` beside MCP: for whoever may call tools, because names of tools are in it.
pub(crate) fn guarded_metrics(app: &Arc<App>) -> Router {
    let receive = Arc::clone(app);
    let guard = move |request: Request, next: Next| {
        let receive = Arc::clone(&receive);
        async move { guarded(&receive, request, next).await }
    };
    lockgate_admin::metrics_router(Arc::clone(app)).layer(middleware::from_fn(guard))
}

async fn guarded(app: &App, mut request: Request, next: Next) -> Response {
    let Some(remote) = request.extensions().get::<Remote>().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    match remote.admit(app, request.headers_mut()).await {
        Ok(()) => next.run(request).await,
        Err(answer) => answer.map(Body::from),
    }
}
