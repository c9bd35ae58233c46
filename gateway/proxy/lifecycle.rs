//! The beginning of the gateway, its changes of configuration, and what is looked after now and then.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_admission::budget::Budget;
use lockgate_admission::{Apart, Bounds};
use lockgate_telemetry::audit::Trail;
use lockgate_telemetry::{Metrics, Tracer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::hub::{self, Hub};
use crate::session::Sessions;
use crate::snapshot::{Rules, Setup, Unusable};
use crate::sole::Sole;

/// Rules that have been compiled and can be adopted.
pub struct Prepared(Setup);

impl Gateway {
    /// Makes a gateway without servers, and starts to follow those that it will get.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn start(
        rules: Rules,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
        audit: Option<Trail>,
    ) -> Result<Arc<Self>, Unusable> {
        let setup = Setup::new(rules, None)?;
        let budget = Arc::new(Budget::new(setup.config.limits.bytes_in_flight));
        // Half of the processors, so that those who serve others keep the other half.
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() / 2);
        let apart = Bounds { running: threads, waiting: setup.config.limits.queued_judgements };
        let gateway = Arc::new(Self {
            hub: Hub::new(setup.naming, &metrics),
            setup: ArcSwap::from_pointee(setup),
            sessions: Sessions::new(Arc::clone(&budget)),
            stopping: CancellationToken::new(),
            ending: watch::Sender::new(false),
            streams: Arc::default(),
            sole: Sole::default(),
            budget,
            apart: Apart::new(apart),
            metrics,
            tracer,
            audit,
        });
        tokio::spawn(hub::follow(Arc::clone(&gateway)));
        tokio::spawn(sweep(Arc::clone(&gateway)));
        Ok(gateway)
    }

    /// Compiles other rules. Nothing changes until they are adopted.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn prepare(&self, rules: Rules) -> Result<Prepared, Unusable> {
        Setup::new(rules, Some(&self.setup.load())).map(Prepared)
    }

    /// Takes over other rules. Sessions and servers stay as they are.
    pub fn adopt(&self, rules: Prepared) {
        self.budget.resize(rules.0.config.limits.bytes_in_flight);
        self.setup.store(Arc::new(rules.0));
        self.hub.refresh();
    }
}

/// Ends idle sessions, and those and the streams of keys that have expired, now and then.
async fn sweep(gateway: Arc<Gateway>) {
    loop {
        let idle = gateway.setup.load().config.limits.session_idle;
        let pause = (idle / 10).clamp(Duration::from_millis(100), Duration::from_secs(30));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = gateway.stopping.cancelled() => return,
        }
        let limiter = Arc::clone(&gateway.setup.load().limiter);
        let _ = tokio::task::spawn_blocking(move || limiter.sweep()).await;
        for session in gateway.sessions.expire(idle) {
            gateway.end_session(&session);
        }
        // A key that expires tells nobody of it.
        let setup = gateway.setup();
        for session in gateway.sessions.all() {
            if setup.authenticator.current(&session.principal()).is_none() {
                gateway.end_session(&session);
            }
        }
        let _ = gateway.hub.news.send(hub::News::Catalog);
    }
}
