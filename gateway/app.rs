//! The composition root: builds every layer from its configuration and passes each its
//! dependencies, in the order in which a request passes the layers.

mod servers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use lockgate_accounts::{AccountObserver, Accounts, Storage};
use lockgate_admin::{ApiConfig, ClientsAddress, LifeCycle, Ready};
use lockgate_admission::{Pool, Pools, spawn};
use lockgate_authn::key::Key;
use lockgate_authn::{Authenticator, Signer};
use lockgate_config::{Config, Sources};
use lockgate_egress::Connector;
use lockgate_limits::Shared;
use lockgate_listener::{GatewayHandler, ServerCertificate};
use lockgate_policy::{Limiter, Local};
use lockgate_proxy::{Gateway, Rules, SignedAssertion};
use lockgate_registry::Registry;
use lockgate_sessions::Edge;
use lockgate_telemetry::audit::Trail;
use lockgate_telemetry::{Metrics, Tracer};
use lockgate_tools::{Builtin, Shell};
use lockgate_upstream::{SingleClient, Surroundings};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::builtin::about;
use crate::forward::Forwarding;
use crate::peers::PeerGateways;
use crate::secret_check::SecretCheck;
use crate::server_clients::ServerClients;
use crate::shutdown::Retiring;
use crate::tenants::Tenants;
use crate::webhook::{Target, Webhook};
use crate::{embeddings, trail};

/// The servers of the configuration, by slug.
pub(crate) type Clients = BTreeMap<String, ConfiguredServer>;

/// A server of the configuration. An operator may connect or disconnect it, which lasts until its
/// entry changes.
#[derive(Clone)]
pub(crate) struct ConfiguredServer {
    pub(crate) entry: Arc<lockgate_upstream::Config>,
    pub(crate) clients: ServerClients,
}

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
    certificate: OnceLock<Arc<ServerCertificate>>,
    pub(crate) around: Surroundings,
    pub(crate) clients: Mutex<Clients>,
    /// Grants of the gateway and of users at servers.
    pub(crate) accounts: Arc<Accounts>,
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
    signer: Arc<Signer>,
    /// The limiter of the policies' rates, kept across reloads.
    limiter: Arc<dyn Limiter>,
    /// The same limiter, if shared with other gateways.
    shared_rates: Option<Arc<Shared>>,
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
        let tracer = Tracer::start(&config.telemetry, &metrics, &trail::find_way(config))?;
        let audit = trail::start(&config.telemetry, &metrics)?;
        let connector = Arc::new(Connector::new(&config.egress).context("egress")?);
        let forwarding = Forwarding::start(&config.telemetry, metrics.audit(), &connector)?;
        let (limiter, shared_rates) = start_rates(config, &connector);
        let signer = Arc::new(Signer::new(config.authn.signer.as_ref()));
        let rules = rules(config, None, (&limiter, &signer), &connector, &metrics)?;
        let client = single_client.clone();
        let gateway = Gateway::start(rules, Arc::clone(&metrics), tracer, audit.clone(), client)?;
        if let Some(replicas) = &config.proxy.replicas {
            let _ = gateway.peers.set(PeerGateways::new(replicas.clone(), Arc::clone(&connector)));
        }
        let (webhook, announcements) = Webhook::start(config, &connector, &metrics)?;
        gateway.approvals.announce_to(announcements);
        let around = surround(config, &connector, &gateway, single_client, &signer);
        let accounts = make_accounts(config, &connector, registry.as_ref());
        let tenants = registry.as_ref();
        let tenants = tenants.map(|known| Tenants::start(known, &gateway, &around, &accounts));
        let app = Arc::new(Self {
            builtin: Builtin::new(about(config, around.events.clone(), &connector)),
            handler: make_handler(&gateway),
            gateway,
            life: LifeCycle::default(),
            ready: config.admin.ready,
            requires_store: config.store.required,
            metrics,
            certificate: OnceLock::new(),
            around,
            clients: Mutex::default(),
            accounts,
            changing: Mutex::default(),
            retiring: Retiring::default(),
            secret_check: SecretCheck::new(config, registry.as_ref()),
            registry,
            tenants,
            audit,
            forwarding,
            audit_file: trail::find_file(&config.telemetry),
            webhook,
            signer,
            limiter,
            shared_rates,
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
        self.replace(&clients);
        Ok(())
    }

    /// Applies another configuration completely or not at all. Only servers with a changed entry
    /// are touched.
    pub(crate) fn apply(&self, config: &Config) -> anyhow::Result<()> {
        let _changing = self.changing.lock();
        // All fallible steps come before the first change.
        let Self { limiter, signer, metrics, .. } = self;
        let connector = &self.around.connector;
        let old = self.authenticator();
        let rules = rules(config, Some(&old), (limiter, signer), connector, metrics)?;
        let rules = self.gateway.prepare(rules)?;
        let builtin = self.builtin.prepare(&config.tools).map_err(anyhow::Error::msg)?;
        let accounts = self.accounts.prepare(&config.accounts);
        let clients = self.clients(config, &accounts)?;
        let target = Target::of(config, connector)?;
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
        for ConfiguredServer { entry, clients } in clients.values() {
            let enabled = clients.client.config().enabled;
            clients.reconfigure(lockgate_upstream::Config { enabled, ..(**entry).clone() });
        }
        self.replace(&clients);
        Ok(())
    }

    pub(crate) fn authenticator(&self) -> Arc<Authenticator> {
        Arc::clone(&self.gateway.snapshot().authenticator)
    }

    /// Returns whether rates are shared with other gateways now; `None` if they are not to be.
    pub(crate) fn shares_rates(&self) -> Option<bool> {
        self.shared_rates.as_ref().map(|shared| !shared.is_away())
    }

    /// Exports the certificate's expiry in the metrics.
    pub(crate) fn watch_certificate(&self, certificate: Option<Arc<ServerCertificate>>) {
        if let Some(certificate) = certificate {
            let _ = self.certificate.set(certificate);
        }
    }

    pub(crate) fn observe_certificate(&self) {
        let Some(certificate) = self.certificate.get() else { return };
        let expiry = certificate.expiry();
        let named = [("server", expiry.server), ("client_authorities", expiry.client_authorities)];
        let expiries = named.into_iter().filter_map(|(name, expiry)| Some((name, expiry?)));
        self.metrics.set_certificates(expiries.collect());
    }

    /// Closes every server (sessions, streams, processes), then flushes the trail, its forwarding
    /// and the spans.
    pub(crate) async fn close(&self) {
        let servers = std::mem::take(&mut *self.clients.lock());
        let clients = servers.into_values().map(|server| server.clients);
        ServerClients::close_all(clients, &self.retiring).await;
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
    connector: &Arc<Connector>,
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
    Accounts::new(Arc::clone(connector), storage)
}

/// Builds the dependencies shared by all clients of servers.
fn surround(
    config: &Config,
    connector: &Arc<Connector>,
    gateway: &Gateway,
    single_client: Option<Arc<SingleClient>>,
    signer: &Arc<Signer>,
) -> Surroundings {
    let limits = &config.proxy.limits;
    let info = serde_json::json!({"name": config.proxy.name, "version": env!("CARGO_PKG_VERSION")});
    Surroundings {
        connector: Arc::clone(connector),
        events: gateway.directory.events.clone(),
        metrics: Some(Arc::clone(&gateway.metrics)),
        single_client,
        pools: Pools {
            running: Pool::new(limits.concurrent_requests),
            waiting: Pool::new(limits.queued_requests),
        },
        part: None,
        budget: Arc::clone(gateway.budget()),
        cpu_pool: Arc::clone(gateway.cpu_pool()),
        info: info.to_string().into_bytes().into(),
        assertion: Some(Arc::new(SignedAssertion { signer: Arc::clone(signer), caller: None })),
        authorization: None,
        memory: None,
        guard: Shell::own_program(),
    }
}

fn make_handler(gateway: &Arc<Gateway>) -> Arc<GatewayHandler> {
    GatewayHandler::new(Edge::new(Arc::clone(gateway)), |parts, answer| {
        Box::pin(lockgate_admin::describe_rejection(parts, answer))
    })
}

/// Returns the limiter of rates, which starts connecting to the shared store if that is configured.
fn start_rates(
    config: &Config,
    connector: &Arc<Connector>,
) -> (Arc<dyn Limiter>, Option<Arc<Shared>>) {
    let Some(limits) = &config.limits else { return (Arc::new(Local::new()), None) };
    let shared = Shared::start(limits.clone(), Arc::clone(connector));
    (Arc::clone(&shared) as _, Some(shared))
}

/// Builds the rules of a configuration. `old` is the authenticator to be replaced.
fn rules(
    config: &Config,
    old: Option<&Authenticator>,
    (limiter, signer): (&Arc<dyn Limiter>, &Arc<Signer>),
    connector: &Arc<Connector>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Rules> {
    let authn = Authenticator::start(&config.authn, connector, old).context("auth.scopes")?;
    let is_wanted = config.authn.signer.is_some();
    Ok(Rules {
        config: config.proxy.clone(),
        authn: Arc::new(authn),
        policy: config.policy.clone(),
        limiter: Arc::clone(limiter),
        signer: is_wanted.then(|| Arc::clone(signer)),
        embedder: embeddings::connect(config, connector, metrics)?,
    })
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
