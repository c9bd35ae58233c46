//! Shutdown: the signals that request it, draining, and the grace period for running calls, also of
//! removed servers. SIGHUP requests a reload of the configuration.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lockgate_listener::Drain;
use lockgate_proxy::Gateway;
use lockgate_upstream::{Client, Upstream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long running requests may continue after the gateway was asked to stop.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// How long writing the final responses to unfinished requests may take.
pub(crate) const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between checks for running requests.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The signals that the gateway handles.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Whether the process was started at a terminal.
    has_terminal: bool,
    /// Notified on a request to reload the configuration.
    reload: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// SIGTERM, as sent by orchestrators.
    Terminate,
    /// SIGINT, usually sent by a user at a terminal.
    Interrupt,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        let hangup = signal(SignalKind::hangup()).context("SIGHUP")?;
        let reload = Arc::new(Notify::new());
        Ok(Self { terminate, interrupt, hangup, has_terminal: has_terminal(), reload })
    }

    /// Returns the notification for requests to reload the configuration.
    pub(crate) fn reload(&self) -> Arc<Notify> {
        Arc::clone(&self.reload)
    }

    /// Waits for a signal that ends the gateway. SIGHUP does so only when the terminal at which the
    /// gateway was started is gone.
    pub(crate) async fn next(&mut self) -> Cause {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Cause::Terminate,
                _ = self.interrupt.recv() => return Cause::Interrupt,
                _ = self.hangup.recv() => {}
            }
            if self.has_terminal && !has_terminal() {
                return Cause::Interrupt;
            }
            self.reload.notify_one();
        }
    }
}

/// Reports whether this process is attached to an existing terminal.
fn has_terminal() -> bool {
    let input = std::io::stdin().is_terminal();
    input || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

/// Keeps answering for a while, so that load balancers can redirect clients. Another signal ends
/// draining early; in development, without a load balancer, the last request does so too.
pub(crate) async fn drain(
    drain: Option<Drain>,
    (time, ends_when_idle): (Duration, bool),
    cause: Cause,
    signals: &mut Signals,
) {
    if let Some(drain) = &drain {
        drain.begin();
    }
    let may_end_early = if ends_when_idle { drain } else { None };
    if cause == Cause::Interrupt || time.is_zero() {
        return;
    }
    if may_end_early.as_ref().is_some_and(Drain::is_idle) {
        return;
    }
    tracing::info!("draining: requests are answered for {} s more (http.drain)", time.as_secs());
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = wait_until_idle(may_end_early) => {}
        _ = signals.next() => tracing::info!("draining aborted by another signal"),
    }
}

/// Waits until no request runs; forever without `drain`.
async fn wait_until_idle(drain: Option<Drain>) {
    let Some(drain) = drain else { return std::future::pending().await };
    while !drain.is_idle() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Waits for the workers to stop; another signal ends the running calls. Returns the number of
/// connections that were cut.
pub(crate) async fn join(
    workers: Vec<std::thread::JoinHandle<usize>>,
    gateway: &Gateway,
    signals: &mut Signals,
) -> usize {
    let mut joined: JoinHandle<usize> = tokio::task::spawn_blocking(move || {
        workers.into_iter().filter_map(|worker| worker.join().ok()).sum()
    });
    tokio::select! {
        cut = &mut joined => return cut.unwrap_or_default(),
        () = tokio::time::sleep(GRACE_PERIOD + FINAL_WRITE_TIMEOUT * 2) => {}
        _ = signals.next() => tracing::info!("running calls end now: received another signal"),
    }
    gateway.end();
    let cut = tokio::time::timeout(FINAL_WRITE_TIMEOUT, joined).await;
    cut.ok().and_then(Result::ok).unwrap_or_default()
}

/// Clients of removed or replaced servers.
#[derive(Default)]
pub(crate) struct Retiring {
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Retiring {
    /// Closes a client after its last call or the grace period; new calls go elsewhere.
    pub(crate) fn retire(&self, client: Arc<Client>) {
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = client.finish_calls(GRACE_PERIOD) => {}
                () = closing.cancelled() => {}
            }
            client.close().await;
        });
    }

    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
