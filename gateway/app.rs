//! The composition root: builds every layer from its configuration and passes each its
//! dependencies, in the order in which a request passes the layers.

mod servers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Context;
use lockgate_accounts::{AccountObserver, Accounts, Storage};
use lockgate_admin::{ApiConfig, ClientsAddress, LifeCycle, Ready};
use lockgate_admission::{Pool, Pools, spawn};
use lockgate_authn::key::Key;
use lockgate_authn::{Authenticator, Outside, Signer};
use lockgate_config::{Config, Sources};
use lockgate_egress::Connector;
use lockgate_limits::Shared;
use lockgate_listener::{CertificateWatch, GatewayHandler};
use lockgate_policy::{Limiter, Local};
use lockgate_proxy::{Gateway, GatewayAssertion, Rules};
use lockgate_registry::Registry;
use lockgate_sessions::Edge;
use lockgate_telemetry::Metrics;
use lockgate_telemetry::audit::Trail;
use lockgate_tools::{About, Builtin, Shell};
use lockgate_upstream::{Client, SingleClient, Surroundings, Upstream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::forward::Forwarding;
use crate::peers::PeerGateways;
use crate::secret_check::SecretCheck;
use crate::shutdown::Retiring;
use crate::switches::Switches;
use crate::tenants::Tenants;
use crate::user_clients::UserClients;
use crate::webhook::{Target, Webhook};
use crate::{embeddings, trail};

pub(crate) type Clients = BTreeMap<String, Arc<Client>>;

/// A running gateway and its parts.
pub(crate) struct App {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) handler: Arc<GatewayHandler>,
    pub(crate) life: LifeCycle,
    /// The condition under which the gateway is ready.
    pub(crate) ready: Ready,
    /// Whether readiness also requires that the store has been read.
    pub(crate) requires_store: bool,
    pub(crate) metrics: Arc<Metrics>,
    certificate: OnceLock<CertificateWatch>,
    pub(crate) around: Surroundings,
    pub(crate) clients: Mutex<Clients>,
    /// Grants of the gateway and of users at servers.
    pub(crate) accounts: Arc<Accounts>,
    /// The servers at which callers have their own accounts.
    pub(crate) user_clients: Mutex<BTreeMap<String, Arc<UserClients>>>,
    pub(crate) switches: Switches,
    /// Held while the configured servers are replaced, so that changes are applied one at a time.
    pub(crate) changing: Mutex<()>,
    /// Removed servers with calls still running.
    retiring: Retiring,
    builtin: Builtin,
    /// Settings changed at run time; `None` where the gateway has no store.
    pub(crate) registry: Option<Arc<Registry>>,
    /// Serves the contents of `registry`.
    pub(crate) tenants: Option<Arc<Tenants>>,
    pub(crate) secret_check: SecretCheck,
    audit: Option<Trail>,
    forwarding: Forwarding,
    /// The audit trail's file, if the output is a file.
    pub(crate) audit_file: Option<PathBuf>,
    webhook: Arc<Webhook>,
    pub(crate) outside: Outside,
    authenticator: Mutex<Arc<Authenticator>>,
    signer: Arc<Signer>,
    pub(crate) rates: Rates,
    pub(crate) api: Mutex<ApiSettings>,
    /// The sources of the configuration, set once reloading starts.
    pub(crate) sources: OnceLock<Sources>,
    /// Notified when a configuration file has changed, with or without a kernel event.
    pub(crate) reload_wanted: Notify,
}

impl App {
    /// Starts the gateway and its servers, for one client (`single_client`) or many. Requires a
    /// runtime.
    pub(crate) fn start(
        config: &Config,
        single_client: Option<Arc<SingleClient>>,
        registry: Option<Arc<Registry>>,
    ) -> anyhow::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::new(&config.telemetry));
        let tracer = trail::start_tracer(config, &metrics)?;
        let audit = trail::start(&config.telemetry, &metrics)?;
        let outside = connect_outside(&config.egress)?;
        let forwarding = Forwarding::start(&config.telemetry, metrics.audit(), &outside)?;
        let authenticator =
            Arc::new(Authenticator::start(&config.authn, &outside, None).context("auth.scopes")?);
        let rates = Rates::start(config, &outside.connector);
        let signer = Arc::new(Signer::new(config.authn.signer.as_ref()));
        let rules = rules(config, &authenticator, &rates, &signer, &outside, &metrics)?;
        let client = single_client.clone();
        let gateway = Gateway::start(rules, Arc::clone(&metrics), tracer, audit.clone(), client)?;
        if let Some(replicas) = &config.proxy.replicas {
            gateway.set_peers(PeerGateways::new(replicas.clone(), &outside));
        }
        let webhook = start_webhook(config, &outside, &metrics, &gateway)?;
        let around = surround(config, &outside, &gateway, single_client, &signer);
        let accounts = make_accounts(config, &outside, registry.as_ref());
        let tenants = start_tenants(registry.as_ref(), &gateway, &around, &accounts);
        let app = Arc::new(Self {
            builtin: Builtin::new(about(config, &around)),
            handler: make_handler(&gateway),
            gateway,
            life: LifeCycle::default(),
            ready: config.admin.ready,
            requires_store: config.store.is_required,
            metrics,
            certificate: OnceLock::new(),
            around,
            clients: Mutex::default(),
            accounts,
            user_clients: Mutex::default(),
            switches: Switches::default(),
            changing: Mutex::default(),
            retiring: Retiring::default(),
            secret_check: SecretCheck::new(config, registry.as_ref()),
            registry,
            tenants,
            audit,
            forwarding,
            audit_file: trail::find_file(&config.telemetry),
            webhook,
            outside,
            authenticator: Mutex::new(authenticator),
            signer,
            rates,
            api: Mutex::new(ApiSettings::new(config)),
            sources: OnceLock::new(),
            reload_wanted: Notify::new(),
        });
        app.follow_accounts();
        app.start_servers(config)?;
        Ok(app)
    }

    /// Receives news of accounts, also of those that other gateways change.
    fn follow_accounts(self: &Arc<Self>) {
        let observer: Arc<dyn AccountObserver> = Arc::clone(self) as _;
        self.accounts.observe(Arc::downgrade(&observer));
        let accounts = Arc::clone(&self.accounts);
        spawn(async move { accounts.follow().await });
    }

    fn start_servers(&self, config: &Config) -> anyhow::Result<()> {
        let builtin = self.builtin.prepare(&config.tools).map_err(anyhow::Error::msg)?;
        let accounts = self.accounts.prepare(&config.accounts);
        let clients = self.clients(config, &accounts)?;
        self.builtin.adopt(builtin);
        self.accounts.adopt(accounts);
        self.replace(clients);
        Ok(())
    }

    /// Applies another configuration completely or not at all. Only servers with a changed entry
    /// are touched.
    pub(crate) fn apply(&self, config: &Config) -> anyhow::Result<()> {
        let _changing = self.changing.lock();
        // All fallible steps come before the first change.
        let old = Arc::clone(&self.authenticator.lock());
        let authenticator = Authenticator::start(&config.authn, &self.outside, Some(&old))
            .context("auth.scopes")?;
        let authenticator = Arc::new(authenticator);
        let Self { rates, signer, outside, metrics, .. } = self;
        let rules = rules(config, &authenticator, rates, signer, outside, metrics)?;
        let rules = self.gateway.prepare(rules)?;
        let builtin = self.builtin.prepare(&config.tools).map_err(anyhow::Error::msg)?;
        let accounts = self.accounts.prepare(&config.accounts);
        let clients = self.clients(config, &accounts)?;
        let target = target(config, &self.outside)?;
        *self.authenticator.lock() = authenticator;
        self.webhook.adopt(target);
        let limits = &config.proxy.limits;
        self.around.pools.running.resize(limits.concurrent_requests);
        self.around.pools.waiting.resize(limits.queued_requests);
        self.signer.adopt(config.authn.signer.as_ref());
        self.gateway.adopt(rules);
        self.secret_check.adopt(config);
        // Set after the authenticator: requests that create a key poll this until it is in force.
        *self.api.lock() = ApiSettings::new(config);
        self.builtin.adopt(builtin);
        self.accounts.adopt(accounts);
        if let Some(registry) = &self.registry {
            registry.set_catalogue(config.catalogue.clone());
        }
        let settings = self.settings(config);
        self.switches.keep(&config.servers);
        for wanted in settings {
            if let Some(client) = clients.get(&wanted.slug) {
                client.reconfigure(wanted);
            }
        }
        self.replace(clients);
        for users in self.user_clients.lock().values() {
            users.reconfigure();
        }
        Ok(())
    }

    pub(crate) fn authenticator(&self) -> Arc<Authenticator> {
        Arc::clone(&self.authenticator.lock())
    }

    /// Exports the certificate's expiry in the metrics.
    pub(crate) fn watch_certificate(&self, watch: Option<CertificateWatch>) {
        if let Some(watch) = watch {
            let _ = self.certificate.set(watch);
        }
    }

    pub(crate) fn observe_certificate(&self) {
        let Some(watch) = self.certificate.get() else { return };
        let expiry = watch.expiry();
        let named = [("server", expiry.server), ("client_authorities", expiry.client_authorities)];
        let expiries = named.into_iter().filter_map(|(name, expiry)| Some((name, expiry?)));
        self.metrics.set_certificates(expiries.collect());
    }

    pub(crate) fn record_reload(&self, is_success: bool) {
        self.metrics.reloaded(is_success);
    }

    /// Closes every server (sessions, streams, processes), then flushes the trail, its forwarding
    /// and the spans.
    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.clients.lock());
        let mut closing = Vec::with_capacity(clients.len());
        for client in clients.into_values() {
            closing.push(spawn(async move { client.close().await }));
        }
        for users in std::mem::take(&mut *self.user_clients.lock()).into_values() {
            closing.push(spawn(async move { users.close().await }));
        }
        self.retiring.close().await;
        for task in closing {
            let _ = task.await;
        }
        self.secret_check.leave().await;
        if let Some(tenants) = &self.tenants {
            tenants.close().await;
        }
        if let Some(audit) = self.audit.clone() {
            let _ = tokio::task::spawn_blocking(move || audit.close()).await;
        }
        self.forwarding.finish().await;
        self.gateway.flush_spans().await;
    }
}

/// Creates the accounts, with the registry's storage if it can store credentials.
fn make_accounts(
    config: &Config,
    outside: &Outside,
    registry: Option<&Arc<Registry>>,
) -> Arc<Accounts> {
    let registry = registry.filter(|registry| registry.can_store_credentials());
    let mut servers = config.accounts.servers.values();
    if registry.is_none() && servers.any(|server| server.method.is_connectable()) {
        tracing::warn!(
            "accounts of users are kept in memory and end with this process: no key is configured \
                (store.keys)"
        );
    }
    let storage = registry.map(|registry| {
        let (store, vault) = registry.storage();
        Storage { store, vault }
    });
    Accounts::new(Arc::clone(&outside.connector), config.egress.clone(), storage)
}

/// Starts serving the contents of the registry, if there is one.
fn start_tenants(
    registry: Option<&Arc<Registry>>,
    gateway: &Arc<Gateway>,
    around: &Surroundings,
    accounts: &Arc<Accounts>,
) -> Option<Arc<Tenants>> {
    let registry = Arc::clone(registry?);
    Some(Tenants::start(registry, Arc::clone(gateway), around.clone(), Arc::clone(accounts)))
}

/// Builds the dependencies shared by all clients of servers.
fn surround(
    config: &Config,
    outside: &Outside,
    gateway: &Gateway,
    single_client: Option<Arc<SingleClient>>,
    signer: &Arc<Signer>,
) -> Surroundings {
    let info = serde_json::json!({"name": config.proxy.name, "version": env!("CARGO_PKG_VERSION")});
    Surroundings {
        connector: Arc::clone(&outside.connector),
        egress: outside.config.clone(),
        events: gateway.events(),
        metrics: Some(gateway.metrics()),
        single_client,
        pools: pools(config),
        part: None,
        budget: Arc::clone(gateway.budget()),
        cpu_pool: Arc::clone(gateway.cpu_pool()),
        info: info.to_string().into_bytes().into(),
        assertion: Some(Arc::new(GatewayAssertion(Arc::clone(signer)))),
        authorization: None,
        memory: None,
        guard: Shell::own_program(),
    }
}

/// Builds the description of the gateway for built-in servers, and their dependencies.
fn about(config: &Config, around: &Surroundings) -> About {
    About {
        name: config.proxy.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started: Instant::now(),
        events: around.events.clone(),
        connector: Arc::clone(&around.connector),
    }
}

fn pools(config: &Config) -> Pools {
    let limits = &config.proxy.limits;
    Pools {
        running: Pool::new(limits.concurrent_requests),
        waiting: Pool::new(limits.queued_requests),
    }
}

fn start_webhook(
    config: &Config,
    outside: &Outside,
    metrics: &Arc<Metrics>,
    gateway: &Gateway,
) -> anyhow::Result<Arc<Webhook>> {
    let (webhook, announcements) = Webhook::start(Arc::clone(metrics));
    webhook.adopt(target(config, outside)?);
    gateway.announce_approvals(announcements);
    Ok(webhook)
}

fn target(config: &Config, outside: &Outside) -> anyhow::Result<Option<Arc<Target>>> {
    config.admin.webhook.as_ref().map(|webhook| Target::new(webhook, outside)).transpose()
}

fn connect_outside(config: &lockgate_egress::Config) -> anyhow::Result<Outside> {
    let connector = Arc::new(Connector::new(config).context("egress")?);
    Ok(Outside { connector, config: config.clone() })
}

fn make_handler(gateway: &Arc<Gateway>) -> Arc<GatewayHandler> {
    GatewayHandler::new(Edge::new(Arc::clone(gateway)), |parts, answer| {
        Box::pin(lockgate_admin::describe_rejection(parts, answer))
    })
}

fn rules(
    config: &Config,
    authn: &Arc<Authenticator>,
    rates: &Rates,
    signer: &Arc<Signer>,
    outside: &Outside,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Rules> {
    let is_wanted = config.authn.signer.is_some();
    Ok(Rules {
        config: config.proxy.clone(),
        authn: Arc::clone(authn),
        policy: config.policy.clone(),
        limiter: rates.limiter(),
        signer: is_wanted.then(|| Arc::clone(signer)),
        embedder: embeddings::connect(config, outside, metrics)?,
    })
}

/// The limiter of the policies' rates, kept across reloads.
pub(crate) struct Rates {
    limiter: Arc<dyn Limiter>,
    /// The same limiter, if shared with other gateways.
    shared: Option<Arc<Shared>>,
}

impl Rates {
    /// Starts connecting to the shared store, if configured. Requires a runtime.
    pub(crate) fn start(config: &Config, connector: &Arc<Connector>) -> Self {
        let Some(limits) = &config.limits else {
            return Self { limiter: Arc::new(Local::new()), shared: None };
        };
        let shared = Shared::start(limits.clone(), Arc::clone(connector));
        Self { limiter: Arc::clone(&shared) as Arc<dyn Limiter>, shared: Some(shared) }
    }

    pub(crate) fn limiter(&self) -> Arc<dyn Limiter> {
        Arc::clone(&self.limiter)
    }

    /// Returns whether counts are shared now; `None` without a shared store.
    pub(crate) fn are_shared(&self) -> Option<bool> {
        let shared = self.shared.as_ref()?;
        Some(!shared.is_away())
    }
}

/// The part of the configuration that the API uses, and the files that it writes.
pub(crate) struct ApiSettings {
    pub(crate) access: Arc<ApiConfig>,
    pub(crate) keys: Arc<[Key]>,
    pub(crate) keys_file: Option<PathBuf>,
    pub(crate) pins_file: Option<PathBuf>,
    /// The key of the audit trail's hashes.
    pub(crate) audit_key: Option<String>,
}

impl ApiSettings {
    pub(crate) fn new(config: &Config) -> Self {
        let keys = config.authn.keys.clone().unwrap_or_default().into();
        let listener = &config.listener;
        let clients_address = ClientsAddress {
            public_url: config.authn.public_url.clone(),
            has_tls: listener.http.tls.is_some(),
            ports: (listener.listen.port(), config.admin.listen.map(|own| own.port())),
        };
        let access = Arc::new(ApiConfig { clients_address, ..config.admin.api.clone() });
        let keys_file = config.authn.keys_file.clone();
        let audit_key = trail::find_key(&config.telemetry);
        Self { access, keys, keys_file, pins_file: config.proxy.pins.file.clone(), audit_key }
    }
}
