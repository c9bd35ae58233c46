//! Starting the gateway, changing its configuration, and periodic cleanup.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_admission::budget::Budget;
use lockgate_admission::{Bounds, CpuPool, spawn};
use lockgate_telemetry::audit::Trail;
use lockgate_telemetry::{Metrics, Tracer};
use lockgate_upstream::SingleClient;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::approvals::Approvals;
use crate::directory::{Change, Directory};
use crate::dispatch::forward_nested;
use crate::follow::follow;
use crate::gateway::Gateway;
use crate::snapshot::{Rules, RulesError, Snapshot};

/// Time for a server to end a call after its question has timed out.
const QUESTION_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Compiled rules that are ready to be adopted.
pub struct Prepared(Snapshot);

impl Gateway {
    /// Creates a gateway without servers and starts following server changes. `single_client` is
    /// set when the gateway serves a single client.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn start(
        rules: Rules,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
        audit: Option<Trail>,
        single_client: Option<Arc<SingleClient>>,
    ) -> Result<Arc<Self>, RulesError> {
        let snapshot = Snapshot::new(rules, None)?;
        let budget = Arc::new(Budget::new(snapshot.config.limits.bytes_in_flight));
        // Half of the processors, so that other requests keep the other half.
        let threads = std::thread::available_parallelism().map_or(1, |all| all.get() / 2);
        let cpu_pool =
            Bounds { running: threads, waiting: snapshot.config.limits.queued_judgements };
        let gateway = Arc::new(Self {
            directory: Directory::new(snapshot.naming, &metrics),
            snapshot: ArcSwap::from_pointee(snapshot),
            session_edge: OnceLock::new(),
            modern_clients: Arc::default(),
            single_client,
            parked: Arc::default(),
            peers: OnceLock::new(),
            stopping: CancellationToken::new(),
            ending: watch::Sender::new(false),
            streams: Arc::default(),
            subscribing: Arc::default(),
            approvals: Approvals::default(),
            activity: Activity::default(),
            usage: Default::default(),
            budget,
            cpu_pool: Arc::new(CpuPool::new(cpu_pool)),
            metrics,
            tracer,
            audit,
            forward: forward_nested,
        });
        spawn(follow(Arc::clone(&gateway)));
        spawn(sweep(Arc::clone(&gateway)));
        Ok(gateway)
    }

    /// Compiles rules without adopting them.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn prepare(&self, rules: Rules) -> Result<Prepared, RulesError> {
        Ok(Prepared(Snapshot::new(rules, Some(&self.snapshot.load()))?))
    }

    /// Adopts compiled rules. Sessions and servers are kept.
    pub fn adopt(&self, rules: Prepared) {
        self.budget.resize(rules.0.config.limits.bytes_in_flight);
        self.snapshot.store(Arc::new(rules.0));
        self.directory.refresh();
    }
}

/// Ends idle sessions, and the sessions and streams of expired keys, at regular intervals.
async fn sweep(gateway: Arc<Gateway>) {
    loop {
        let idle = gateway.snapshot.load().config.limits.session_idle;
        let pause = (idle / 10).clamp(Duration::from_millis(100), Duration::from_secs(30));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = gateway.stopping.cancelled() => return,
        }
        let limiter = Arc::clone(&gateway.snapshot.load().limiter);
        let _ = tokio::task::spawn_blocking(move || limiter.sweep()).await;
        if let Some(edge) = gateway.session_edge() {
            edge.sweep(idle);
        }
        gateway
            .parked
            .expire(gateway.snapshot().config.limits.question_timeout + QUESTION_GRACE_PERIOD);
        for (principal, key) in gateway.modern_clients.expire(idle) {
            for server in gateway.directory.servers_for(principal.organisation()) {
                server.forget_session(key);
            }
        }
        // The expiry of a key triggers no event, so streams check theirs now.
        gateway.directory.changes.send(None, Change::Catalog(Arc::default()));
    }
}
