//! The composition root: makes every layer from its configuration and hands each what it may use, in the order in
//! which a request passes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use lockgate_admin::{Health, LifeCycle, State};
use lockgate_admission::budget::Budget;
use lockgate_admission::{Pool, Pools};
use lockgate_authn::{Authenticator, Credentials, Outside, Principal};
use lockgate_config::{Config, Loaded, Sources};
use lockgate_egress::Connector;
use lockgate_listener::{OperatorServer, Receive, Server, Stdio};
use lockgate_proxy::face::{Endpoint, Inbound, Reply};
use lockgate_proxy::{Gateway, Rules};
use lockgate_telemetry::audit::Trail;
use lockgate_telemetry::{Metrics, Rejection, Tracer};
use lockgate_tools::{About, Builtin, Shell};
use lockgate_upstream::{Client, Surroundings, Upstream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::shutdown::Signals;
use crate::{reload, shutdown, trail};

/// How long running requests may take once the gateway is told to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
/// How long the answers to those that are not finished by then may take to be written.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);
/// Threads that serve clients.
const MAX_WORKERS: usize = 16;

/// The clients of the configured servers, by slug.
type Clients = BTreeMap<String, Arc<Client>>;

/// A running gateway and what it is made of.
pub(crate) struct App {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) life: LifeCycle,
    metrics: Arc<Metrics>,
    around: Surroundings,
    clients: Mutex<Clients>,
    builtin: Builtin,
    audit: Option<Trail>,
    outside: Outside,
    authenticator: Mutex<Arc<Authenticator>>,
}

impl App {
    /// Starts the gateway and its servers; needs a runtime.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::new(&config.telemetry));
        let tracer = Tracer::start(&config.telemetry, &metrics)?;
        let audit = trail::start(&config.telemetry, &metrics)?;
        let connector = Arc::new(Connector::new(&config.egress).context("egress")?);
        let outside = Outside { connector: Arc::clone(&connector), config: config.egress.clone() };
        let authenticator = Arc::new(Authenticator::start(&config.authn, &outside, None).context("auth.scopes")?);
        let rules = rules(config, Arc::clone(&authenticator));
        let gateway = Gateway::start(rules, Arc::clone(&metrics), tracer, audit.clone())?;
        let limits = &config.proxy.limits;
        let pools =
            Pools { running: Pool::new(limits.concurrent_requests), waiting: Pool::new(limits.queued_requests) };
        let around = Surroundings {
            connector,
            egress: config.egress.clone(),
            events: gateway.events(),
            pools,
            budget: Arc::clone(gateway.budget()),
            info: serde_json::json!({"name": config.proxy.name, "version": env!("CARGO_PKG_VERSION")})
                .to_string()
                .into_bytes()
                .into(),
            guard: Shell::own_program(),
        };
        let about = About {
            name: config.proxy.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            started: Instant::now(),
            events: gateway.events(),
            connector: Arc::clone(&around.connector),
        };
        let app = Arc::new(Self {
            builtin: Builtin::new(about),
            gateway,
            life: LifeCycle::new(),
            metrics,
            around,
            clients: Mutex::default(),
            audit,
            outside,
            authenticator: Mutex::new(authenticator),
        });
        let builtin = app.builtin.prepare(&config.tools).map_err(anyhow::Error::msg)?;
        let clients = app.clients(config)?;
        app.builtin.adopt(builtin);
        app.replace(clients);
        Ok(app)
    }

    /// Takes over another configuration, all of it or nothing. Only servers whose own configuration differs are touched.
    pub(crate) fn apply(&self, config: &Config) -> anyhow::Result<()> {
        // What can fail comes before what changes something.
        let old = Arc::clone(&self.authenticator.lock());
        let authenticator = Authenticator::start(&config.authn, &self.outside, Some(&old)).context("auth.scopes")?;
        let authenticator = Arc::new(authenticator);
        let rules = self.gateway.prepare(rules(config, Arc::clone(&authenticator)))?;
        let builtin = self.builtin.prepare(&config.tools).map_err(anyhow::Error::msg)?;
        let clients = self.clients(config)?;
        *self.authenticator.lock() = authenticator;
        let limits = &config.proxy.limits;
        self.around.pools.running.resize(limits.concurrent_requests);
        self.around.pools.waiting.resize(limits.queued_requests);
        self.gateway.adopt(rules);
        self.builtin.adopt(builtin);
        self.replace(clients);
        Ok(())
    }

    /// A client for each configured server: the one that is there, or a new one that does nothing yet.
    fn clients(&self, config: &Config) -> anyhow::Result<Clients> {
        let old = self.clients.lock();
        let client = |wanted: &lockgate_upstream::Config| match old.get(&wanted.slug) {
            Some(old) if old.config() == wanted => Ok(Arc::clone(old)),
            _ => Client::new(wanted.clone(), self.around.clone()),
        };
        let all = config.servers.iter().map(|wanted| Ok((wanted.slug.clone(), client(wanted)?)));
        all.collect()
    }

    /// Starts the new clients, and closes those that are not wanted any more.
    fn replace(&self, clients: Clients) {
        let old = std::mem::replace(&mut *self.clients.lock(), clients.clone());
        for (slug, client) in old {
            if !clients.get(&slug).is_some_and(|new| Arc::ptr_eq(new, &client)) {
                tracing::info!(server = slug, "server closed: its configuration has changed or is gone");
                tokio::spawn(async move { client.close().await });
            }
        }
        for client in clients.values() {
            client.start();
        }
        let clients = clients.into_values().map(|client| client as Arc<dyn Upstream>);
        self.gateway.set_servers(clients.chain(self.builtin.servers()));
    }

    /// Ends every server (sessions, streams, processes), then the trail.
    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.clients.lock());
        let closing: Vec<_> =
            clients.into_values().map(|client| tokio::spawn(async move { client.close().await })).collect();
        for task in closing {
            let _ = task.await;
        }
        if let Some(audit) = self.audit.clone() {
            let _ = tokio::task::spawn_blocking(move || audit.close()).await;
        }
    }
}

fn rules(config: &Config, authn: Arc<Authenticator>) -> Rules {
    Rules { config: config.proxy.clone(), authn, policy: config.policy.clone() }
}

impl Receive for App {
    type Place = lockgate_proxy::Open;

    fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> impl Future<Output = Result<Principal, Reply>> + Send {
        self.gateway.identify(endpoint, credentials)
    }

    fn stream(&self, caller: &Principal) -> Option<Self::Place> {
        self.gateway.stream(caller)
    }

    fn metadata(&self, path: &str) -> Option<String> {
        self.gateway.metadata(path)
    }

    fn turned_away(&self, why: Rejection, words: Cow<'static, str>) {
        self.gateway.turned_away(why, words);
    }

    fn budget(&self) -> &Arc<Budget> {
        self.gateway.budget()
    }

    fn receive(&self, inbound: Inbound) -> impl Future<Output = Reply> + Send {
        self.gateway.receive(inbound)
    }
}

impl Health for App {
    fn state(&self) -> State {
        self.life.state()
    }

    fn servers(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for server in self.gateway.servers() {
            *counts.entry(server.status().state.as_str()).or_default() += 1;
        }
        counts
    }

    fn metrics(&self) -> String {
        self.gateway.observe();
        self.metrics.render()
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime cannot start")
}

/// `lockgate serve`.
pub(crate) fn serve(loaded: Loaded, sources: Sources) -> anyhow::Result<(String, ExitCode)> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let log = lockgate_telemetry::init(&loaded.config.telemetry)?;
    warn(&loaded);
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_WORKERS);
        let servers = Server::bind_many(loaded.config.listener.clone(), threads)?;
        let app = App::start(&loaded.config)?;
        let admin = admin(&loaded.config, &app)?;
        if let Some(first) = servers.first() {
            tell(first.address(), &loaded.config, admin);
        }
        let health = lockgate_admin::health_router(Arc::clone(&app));
        let other = if admin.is_some() { health } else { health.merge(shutdown::guarded_metrics(&app)) };
        let time_to_drain = loaded.config.listener.drain;
        reload::watch(Arc::clone(&app), loaded, sources, log);
        let ready = Arc::clone(&app);
        tokio::spawn(async move {
            ready.gateway.settle().await;
            ready.life.ready();
            tracing::info!("ready");
        });
        let (stop, drain) = (CancellationToken::new(), servers.first().map(Server::drain));
        let workers = servers.into_iter().map(|server| worker(server, &app, other.clone(), stop.clone()));
        let workers = workers.collect::<std::io::Result<Vec<_>>>()?;
        let cause = signals.next().await;
        app.life.shut_down();
        shutdown::drain(drain, time_to_drain, cause, &mut signals).await;
        tracing::info!("shutting down: no new connections, running requests get {} s", GRACE.as_secs());
        app.gateway.stop();
        stop.cancel();
        tokio::spawn(end_calls(Arc::clone(&app)));
        let cut = shutdown::join(workers, &app, &mut signals).await;
        app.close().await;
        app.life.stop();
        tracing::info!(cut, "stopped");
        anyhow::Ok(ExitCode::SUCCESS)
    })?;
    // A worker that did not end when it was told to must not hold up the end.
    runtime.shutdown_background();
    Ok((String::new(), code))
}

/// Answers what still runs at the end of its time.
async fn end_calls(app: Arc<App>) {
    tokio::time::sleep(GRACE).await;
    app.gateway.end();
}

/// Accepts and answers on a thread of its own: a call then runs from its first byte to its last without waking
/// another thread.
fn worker(
    server: Server,
    app: &Arc<App>,
    other: Router,
    stop: CancellationToken,
) -> std::io::Result<std::thread::JoinHandle<usize>> {
    let app = Arc::clone(app);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("worker".into()).spawn(move || {
        let ended = runtime.block_on(server.run(app, other, stop.cancelled_owned(), GRACE + FAREWELL));
        ended.unwrap_or_else(|error| {
            tracing::error!(%error, "a worker has ended");
            0
        })
    })
}

/// `lockgate stdio`.
pub(crate) fn stdio(loaded: Loaded, sources: Sources) -> anyhow::Result<(String, ExitCode)> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let log = lockgate_telemetry::init(&loaded.config.telemetry)?;
    warn(&loaded);
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut config = loaded.config.clone();
        trail::leave_stdout(&mut config.telemetry);
        let app = App::start(&config)?;
        let (limits, calls) = (&loaded.config.listener.limits, &loaded.config.proxy.limits);
        let bounds = Stdio {
            line_bytes: limits.body_bytes,
            depth: loaded.config.proxy.limits.depth,
            requests: calls.concurrent_requests.saturating_add(calls.queued_requests),
            grace: GRACE + FAREWELL,
        };
        reload::watch(Arc::clone(&app), loaded, sources, log);
        let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
        let (stopping, mut signals) = (Arc::clone(&app), Signals::listen()?);
        let served = lockgate_listener::serve_stdio(stdin, stdout, Arc::clone(&app), bounds, async move {
            signals.next().await;
            stopping.gateway.stop();
            tokio::spawn(end_calls(stopping));
        });
        served.await?;
        app.close().await;
        anyhow::Ok(())
    })?;
    // A blocking read of stdin may still be under way and must not hold up the end.
    runtime.shutdown_background();
    Ok((String::new(), ExitCode::SUCCESS))
}

/// The operator's endpoints on an address and a thread of their own, if they have one.
fn admin(config: &Config, app: &Arc<App>) -> anyhow::Result<Option<SocketAddr>> {
    let Some(address) = config.admin.listen else { return Ok(None) };
    let server = OperatorServer::bind(address).context("admin.listen")?;
    let address = server.address();
    let router = lockgate_admin::health_router(Arc::clone(app)).merge(lockgate_admin::metrics_router(Arc::clone(app)));
    server.start(router).context("admin.listen")?;
    Ok(Some(address))
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
}

/// What a person wants to know once the gateway listens.
fn tell(address: SocketAddr, config: &Config, admin: Option<SocketAddr>) {
    use std::io::Write;
    let scheme = if config.listener.tls.is_some() { "https" } else { "http" };
    let key = match (&config.authn.key, config.authn.has_credentials()) {
        (Some(_), _) => " (with `Authorization: Bearer <auth.key>`)",
        (None, true) => " (with credentials, see `auth`)",
        (None, false) => "",
    };
    // The operator's own address has no TLS.
    let health = admin.map_or_else(|| format!("{scheme}://{address}"), |admin| format!("http://{admin}"));
    let mut text = format!(
        "lockgate {} listens on {scheme}://{address}\n\n  every server    {scheme}://{address}/mcp{key}\n  one server      {scheme}://{address}/servers/NAME/mcp\n  health          {health}/readyz\n",
        env!("CARGO_PKG_VERSION"),
    );
    if config.servers.is_empty() && config.tools.example {
        text.push_str("\nNo servers are configured, so only the built-in ones are there. Next:\n\n");
        text.push_str(
            "  lockgate call example__echo '{\"text\":\"hello\"}'    a first tool call, in another terminal\n",
        );
        text.push_str("  lockgate tools                                     what clients see\n\n");
        text.push_str("Then name your own servers in lockgate.yaml:\n\n  servers:\n    time: { command: uvx, args: [mcp-server-time] }\n");
    }
    let _ = writeln!(std::io::stderr(), "{text}");
}
