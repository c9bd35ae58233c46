//! `lockgate serve` and `lockgate stdio`: the listeners and their threads, from the start of the
//! process to its end.

mod connect;
mod console;
mod routes;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use lockgate_admin::{Applications, Health, LifeState};
use lockgate_admission::spawn;
use lockgate_config::{Config, Loaded, Sources};
use lockgate_listener::{Server, Stdio, fallback, start_operators};
use lockgate_proxy::transport::Endpoint;
use lockgate_registry::Registry;
use lockgate_telemetry::{Format, Guard, RECENT_STEP};
use lockgate_upstream::SingleClient;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::shutdown::{FINAL_WRITE_TIMEOUT, GRACE_PERIOD, Signals};
use crate::{reload, shutdown, tenants, trail};

/// Interval between readiness checks.
const READINESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of threads that serve clients.
const MAX_WORKERS: usize = 16;
/// Time in which running requests complete and their last responses are written.
const GRACE: Duration = GRACE_PERIOD.saturating_add(FINAL_WRITE_TIMEOUT);

/// Starts the log and the runtime.
fn begin(loaded: &Loaded) -> anyhow::Result<(Guard, Runtime)> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let log = lockgate_telemetry::init(&loaded.config.telemetry)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = Builder::new_multi_thread().enable_all().build();
    Ok((log, runtime.context("the runtime cannot start")?))
}

/// Runs `lockgate serve`.
pub(crate) fn serve(loaded: Loaded, sources: Sources) -> anyhow::Result<(String, ExitCode)> {
    let (log, runtime) = begin(&loaded)?;
    let code = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let threads =
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_WORKERS);
        let servers = Server::bind_many(loaded.config.listener.clone(), threads)?;
        let registry = tenants::open_registry(&loaded.config).await?;
        let app = start_app(&loaded.config, None, registry, &log)?;
        app.watch_certificate(servers.first().and_then(Server::certificate));
        let applications = Applications::new(Arc::clone(&app.gateway), Arc::clone(&app) as _);
        let applications =
            applications.context("random numbers are unavailable on this machine")?;
        let admin = start_admin(&loaded.config, &app, &applications)?;
        if let Some(first) = servers.first() {
            greet(first.address(), &loaded.config, admin);
        }
        let other = client_routes(&loaded.config, &app, &applications, admin.is_none());
        let other = fallback(other);
        let listener = &loaded.config.listener;
        let time_to_drain = (listener.http.drain, !listener.drains_when_idle);
        reload::watch(Arc::clone(&app), loaded, sources, log.clone(), signals.reload());
        spawn(become_ready(Arc::clone(&app)));
        let watched = Arc::clone(&app);
        spawn(async move { watched.secret_check.watch().await });
        spawn(count_steps(Arc::clone(&app)));
        let stop = CancellationToken::new();
        let drain = servers.first().map(Server::drain);
        let handler = Arc::clone(&app.handler);
        let mut workers = Vec::new();
        for server in servers {
            let shutdown = Box::pin(stop.clone().cancelled_owned());
            let handler = Arc::clone(&handler);
            workers.push(server.start_thread("worker", handler, other.clone(), shutdown, GRACE)?);
        }
        let cause = signals.next().await;
        app.life.reach(LifeState::ShuttingDown);
        shutdown::drain(drain, time_to_drain, cause, &mut signals).await;
        tracing::info!(
            "shutting down: no new connections, running requests get {} s",
            GRACE_PERIOD.as_secs()
        );
        app.gateway.stop();
        stop.cancel();
        spawn(end_calls(Arc::clone(&app)));
        let cut = shutdown::join(workers, &app.gateway, &mut signals).await;
        close(&app, &log, cut).await;
        anyhow::Ok(ExitCode::SUCCESS)
    })?;
    // A worker that did not stop in time must not delay the exit.
    runtime.shutdown_background();
    Ok((String::new(), code))
}

/// Starts the gateway and the export of log lines.
fn start_app(
    config: &Config,
    single_client: Option<Arc<SingleClient>>,
    registry: Arc<Registry>,
    log: &Guard,
) -> anyhow::Result<Arc<App>> {
    let app = App::start(config, single_client, Some(registry))?;
    log.export(&config.telemetry, &app.metrics, &trail::find_way(config))?;
    Ok(app)
}

/// Closes the app, and then flushes the log.
async fn close(app: &App, log: &Guard, cut: usize) {
    app.close().await;
    app.life.reach(LifeState::Stopped);
    tracing::info!(cut, "stopped");
    log.flush().await;
}

/// Marks the gateway as ready once its servers have settled.
async fn become_ready(app: Arc<App>) {
    app.gateway.settle().await;
    app.secret_check.look().await;
    app.life.reach(LifeState::Ready);
    let report = app.report();
    if report.lacks_store {
        tracing::warn!("not ready: the store has not been read yet (store.required)");
    } else if report.missing().is_some() && !report.has_other_secret {
        tracing::warn!(
            connected = %report.connected,
            "not ready: admin.ready requires more connected servers"
        );
    }
    let mut looks = tokio::time::interval(READINESS_CHECK_INTERVAL);
    while app.report().missing().is_some() {
        looks.tick().await;
    }
    tracing::info!(connected = %app.report().connected, "ready");
}

/// Divides the statistics of recent calls into steps.
async fn count_steps(app: Arc<App>) {
    let mut ends = tokio::time::interval(RECENT_STEP);
    loop {
        ends.tick().await;
        app.gateway.metrics.end_step();
    }
}

/// Ends calls that still run after the grace period.
async fn end_calls(app: Arc<App>) {
    tokio::time::sleep(GRACE_PERIOD).await;
    app.gateway.end();
}

/// Runs `lockgate stdio`, for the given agent if any.
pub(crate) fn serve_stdio(
    loaded: Loaded,
    sources: Sources,
    agent: Option<&str>,
) -> anyhow::Result<(String, ExitCode)> {
    let (log, runtime) = begin(&loaded)?;
    runtime.block_on(async {
        let mut config = loaded.config.clone();
        trail::leave_stdout(&mut config.telemetry);
        let registry = tenants::open_registry(&config).await?;
        let endpoint = match agent {
            Some(id) => tenants::find_local_agent(&registry, id)?,
            None => Endpoint::All,
        };
        let app = start_app(&config, Some(SingleClient::new()), registry, &log)?;
        let http = &loaded.config.listener.http;
        let calls = &loaded.config.proxy.limits;
        let bounds = Stdio {
            endpoint,
            line_bytes: http.body_bytes,
            depth: loaded.config.proxy.limits.depth,
            requests: calls.concurrent_requests.saturating_add(calls.queued_requests),
            grace: GRACE,
        };
        let mut signals = Signals::listen()?;
        reload::watch(Arc::clone(&app), loaded, sources, log.clone(), signals.reload());
        let stdin = tokio::io::stdin();
        let stdout = tokio::io::stdout();
        let stopping = Arc::clone(&app);
        let stopped = async move {
            signals.next().await;
            stopping.gateway.stop();
            spawn(end_calls(stopping));
        };
        let handler = Arc::clone(&app.handler);
        let stopped = Box::pin(stopped);
        lockgate_listener::serve_stdio(stdin, stdout, handler, bounds, stopped).await?;
        app.close().await;
        log.flush().await;
        anyhow::Ok(())
    })?;
    // A blocking read of stdin may still be in progress and must not delay the exit.
    runtime.shutdown_background();
    Ok((String::new(), ExitCode::SUCCESS))
}

/// Starts the operators' endpoints on a separate address and thread, if configured.
fn start_admin(
    config: &Config,
    app: &Arc<App>,
    applications: &Applications,
) -> anyhow::Result<Option<SocketAddr>> {
    let Some(address) = config.admin.listen else { return Ok(None) };
    let mut router = lockgate_admin::router(Arc::clone(app));
    if config.admin.api.on_own_address {
        router = router.merge(serve_applications(app, applications));
    }
    let address =
        start_operators(address, &config.listener, Arc::clone(&app.handler), fallback(router));
    address.map(Some).context("admin.listen")
}

/// Returns the routes beside MCP on the clients' address.
fn client_routes(
    config: &Config,
    app: &Arc<App>,
    applications: &Applications,
    has_metrics: bool,
) -> Router {
    app.gateway.approvals.open();
    let mut other = lockgate_admin::health_router(Arc::clone(app));
    other = other.merge(routes::guarded_approvals(app));
    other = other.merge(routes::registry(app));
    other = other.merge(lockgate_admin::page_router(Arc::clone(&app.gateway)));
    if has_metrics {
        other = other.merge(routes::guarded_metrics(app, config.admin.scrape_token.clone()));
    }
    if config.admin.api.on_clients_address {
        other = other.merge(serve_applications(app, applications));
    }
    if config.accounts.public_url.is_some() {
        other = other.merge(connect::guarded_pages(app, applications));
    }
    other
}

/// Returns the routes of the API and of the console built on it.
fn serve_applications(app: &Arc<App>, applications: &Applications) -> Router {
    let api = routes::guarded_api(applications);
    api.merge(console::guarded_console(app, applications))
}

const NEXT_STEPS: &str = r#"
No servers are configured, so only the built-in ones are available. Next:

  lockgate call example__echo '{"text":"hello"}'    a first tool call, in another terminal
  lockgate tools                                     the tools that clients see

Then add your own servers to lockgate.yaml:

  servers:
    time: { command: uvx, args: [mcp-server-time] }
"#;

/// Prints the addresses of the gateway and the next steps.
fn greet(address: SocketAddr, config: &Config, admin: Option<SocketAddr>) {
    use std::io::Write;
    let scheme = if config.listener.http.tls.is_some() { "https" } else { "http" };
    let key = match (&config.authn.key, config.authn.has_credentials()) {
        (Some(_), _) => " (with `Authorization: Bearer <auth.key>`)",
        (None, true) => " (with credentials, see `auth`)",
        (None, false) => "",
    };
    // A log in JSON must keep to one object per line.
    if config.telemetry.format == Format::Json {
        let own = admin.map(|admin| format!("http://{admin}"));
        return tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            admin = own,
            "lockgate listens on {scheme}://{address} for clients"
        );
    }
    // The operators' own address has no TLS.
    let health =
        admin.map_or_else(|| format!("{scheme}://{address}"), |admin| format!("http://{admin}"));
    let console = match (config.admin.api.on_clients_address, config.admin.api.on_own_address) {
        (true, _) => format!("  console         {scheme}://{address}/console\n"),
        (false, true) if admin.is_some() => format!("  console         {health}/console\n"),
        (false, _) => String::new(),
    };
    let mut text = format!(
        "lockgate {} listens on {scheme}://{address}\n\n  every server    \
            {scheme}://{address}/mcp{key}\n  one server      \
            {scheme}://{address}/servers/NAME/mcp\n{console}  health          {health}/readyz\n",
        env!("CARGO_PKG_VERSION"),
    );
    if config.servers.is_empty() && config.tools.runs("example") {
        text.push_str(NEXT_STEPS);
    }
    let _ = writeln!(std::io::stderr(), "{text}");
}
