//! The organisations' integrations and agents, from the registry into the data plane: a client for
//! each enabled integration, and the agents. A change touches only the changed parts of a single
//! organisation.

mod known_lists;
mod members;
mod usage;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use lockgate_accounts::Accounts;
use lockgate_admin::Switch;
use lockgate_admission::spawn;
use lockgate_authn::DEFAULT_ORGANISATION;
use lockgate_config::Config;
use lockgate_egress::{Policy, RefusedUrl};
use lockgate_proxy::transport::Endpoint;
use lockgate_proxy::{AgentOwner, AgentServers, Gateway, ToolsMode};
use lockgate_registry::{
    AgentSnapshot, CredentialState, IntegrationSnapshot, InvalidField, OrganisationSnapshot,
    Registry,
};
use lockgate_store::is_integration;
use lockgate_text::date;
use lockgate_upstream::{
    CatalogMemory, Client, Organisations, ServerId, Surroundings, Transport, Upstream,
};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use url::Url;

use known_lists::Memory;

use crate::server_clients::ServerClients;
use crate::shutdown::Retiring;

/// How long after a change an integration is connected without being used.
const RECENT_MS: u64 = 60_000;

/// How long a change waits until this gateway serves it.
const SERVED_TIMEOUT: Duration = Duration::from_secs(2);

/// Divisor: the part of the memory for messages that the lists of organisations may take.
const LIST_MEMORY_DIVISOR: usize = 4;

/// The integrations of an organisation that have a client, by id.
type Integrations = BTreeMap<Arc<str>, Connected>;

/// A version of an integration, and its clients.
#[derive(Clone)]
struct Connected {
    integration: Arc<IntegrationSnapshot>,
    clients: ServerClients,
    memory: Arc<Memory>,
}

/// A client to be created.
struct WantedClient<'a> {
    integration: &'a Arc<IntegrationSnapshot>,
    /// The client to be replaced.
    old: Option<&'a Connected>,
    /// Whether the integration is connected, not switched off by an operator.
    is_on: bool,
}

/// Calls and failed calls by organisation, slug and days since 1970.
type CallsByDay = HashMap<(String, String, i64), (i64, i64)>;

/// Counts of usage that are not passed on yet.
#[derive(Default)]
struct UsageWriter {
    daily: Mutex<CallsByDay>,
    /// Time of the last take, in seconds since 1970; 0 before the first.
    taken: Mutex<i64>,
}

/// An organisation's state in this gateway.
struct Tenant {
    /// The snapshot being served.
    snapshot: Arc<OrganisationSnapshot>,
    around: Surroundings,
    integrations: Integrations,
}

pub(crate) struct Tenants {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
    around: Surroundings,
    accounts: Arc<Accounts>,
    /// Limits shared by all organisations.
    all: Organisations,
    /// Held while an organisation is replaced, so that changes are applied one at a time.
    organisations: Mutex<HashMap<Arc<str>, Tenant>>,
    retiring: Retiring,
    /// Stored credentials that cannot be decrypted, by organisation; each is recorded once.
    unopened: Mutex<HashMap<Arc<str>, Vec<Unopened>>>,
    usage: UsageWriter,
}

/// An integration's id, its version, and why its stored credentials cannot be decrypted.
type Unopened = (Arc<str>, i64, String);

/// Opens the registry. If the store is unreachable, its contents are loaded later.
///
/// # Errors
/// Permanent failures: a database of another program, a damaged one, a newer schema.
pub(crate) async fn open_registry(config: &Config) -> anyhow::Result<Arc<Registry>> {
    let addresses = config.egress.organisations;
    let check = Box::new(move |url: &Url| addresses.check_url(url).map_err(refuse_url));
    let registry = Registry::open(&config.store, check).await.context("store")?;
    registry.set_catalogue(config.catalogue.clone());
    if registry.is_loaded() {
        let organisations = registry.organisations();
        let integrations: usize = organisations.iter().map(|known| known.integrations).sum();
        // Without a configuration file, all folders share one store.
        tracing::info!(integrations, store = %config.store.place, "the store is open");
    }
    Ok(registry)
}

fn refuse_url(refused: RefusedUrl) -> InvalidField {
    InvalidField { pointer: "/url", message: refused.message, way_out: refused.way_out }
}

/// Returns the endpoint of an agent for the local user over stdio.
///
/// # Errors
/// The agent does not exist, or is unknown because the store is unavailable.
pub(crate) fn find_local_agent(registry: &Registry, id: &str) -> anyhow::Result<Endpoint> {
    let snapshot = registry.snapshot(DEFAULT_ORGANISATION);
    if snapshot.agents.iter().any(|known| known.agent.id == id) {
        return Ok(Endpoint::agent(id));
    }
    match registry.trouble() {
        Some(trouble) => bail!("the assignments of the agent `{id}` are unavailable: {trouble}"),
        None => bail!(
            "there is no agent `{id}` in the organisation `{DEFAULT_ORGANISATION}`; `lockgate \
                agents list` shows the agents"
        ),
    }
}

impl Tenants {
    /// Serves the known organisations, and follows changes until the process ends. Integrations
    /// connect on first use.
    pub(crate) fn start(
        registry: &Arc<Registry>,
        gateway: &Arc<Gateway>,
        around: &Surroundings,
        accounts: &Arc<Accounts>,
    ) -> Arc<Self> {
        let lists = around.budget.limit() / LIST_MEMORY_DIVISOR;
        let all = Organisations::new(around.pools.clone(), lists);
        let tenants = Arc::new(Self {
            registry: Arc::clone(registry),
            gateway: Arc::clone(gateway),
            around: around.clone(),
            accounts: Arc::clone(accounts),
            all,
            organisations: Mutex::default(),
            retiring: Retiring::default(),
            unopened: Mutex::default(),
            usage: UsageWriter::default(),
        });
        let changes = tenants.registry.changes();
        tenants.adopt_all();
        let follower = Arc::clone(&tenants);
        spawn(async move { tokio::join!(follower.follow(changes), follower.keep_usage()) });
        let registry = Arc::clone(registry);
        spawn(async move { registry.follow().await });
        tenants
    }

    async fn follow(&self, mut changes: tokio::sync::broadcast::Receiver<Arc<str>>) {
        loop {
            match changes.recv().await {
                Ok(organisation) => self.adopt(&organisation),
                Err(RecvError::Lagged(_)) => self.adopt_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn adopt_all(&self) {
        let known = self.registry.organisations();
        let mut names: BTreeSet<Arc<str>> = self.organisations.lock().keys().cloned().collect();
        names.extend(known.iter().map(|organisation| organisation.id.as_str().into()));
        for name in names {
            self.adopt(&name);
        }
    }

    /// Serves an organisation's stored state, and waits until requests see it.
    pub(crate) async fn serve_changes(&self, organisation: &str) {
        self.adopt(organisation);
        self.gateway.settle_changes(organisation, SERVED_TIMEOUT).await;
    }

    fn adopt(&self, organisation: &str) {
        let mut organisations = self.organisations.lock();
        let snapshot = self.registry.snapshot(organisation);
        if let Some(known) = organisations.get(organisation)
            && Arc::ptr_eq(&known.snapshot, &snapshot)
        {
            return;
        }
        self.record_unopened(&snapshot);
        let (around, old) = match organisations.remove(organisation) {
            Some(tenant) => (tenant.around, tenant.integrations),
            None => (self.surround_organisation(), Integrations::new()),
        };
        self.set_accounts(&snapshot, &around);
        let integrations = self.connect(&snapshot, &around, &old);
        for (id, connected) in &integrations {
            let client = &connected.clients.client;
            let is_new = !has_client(&old, id, client);
            if is_new {
                client.start();
            }
            // The author of a recent change needs to see whether the integration works.
            if is_new && is_recent(connected.integration.updated_at) {
                client.revive();
            }
        }
        self.serve(&snapshot, &integrations);
        for (id, connected) in old {
            if has_client(&integrations, &id, &connected.clients.client) {
                continue;
            }
            // A change of the method ends the accounts of members, as a deletion does.
            if let Some(users) = &connected.clients.users
                && let CredentialState::OfMembers(auth) = &connected.integration.credential
                && !self.registry.has_auth(organisation, &id, auth)
            {
                users.end_all();
            }
            connected.clients.retire(&self.retiring);
        }
        if !integrations.is_empty() {
            let name = Arc::clone(&snapshot.organisation);
            organisations.insert(name, Tenant { snapshot, around, integrations });
        }
    }

    /// Records credentials that were altered, or copied from elsewhere.
    fn record_unopened(&self, snapshot: &OrganisationSnapshot) {
        let organisation = &snapshot.organisation;
        let now = snapshot.integrations.iter().filter_map(|one| {
            let error = one.unopened.as_ref()?;
            Some((Arc::clone(&one.id), one.version, error.to_string()))
        });
        let now: Vec<Unopened> = now.collect();
        let mut unopened = self.unopened.lock();
        let before = unopened.remove(organisation).unwrap_or_default();
        for one in &now {
            if before.contains(one) {
                continue;
            }
            let (id, _, error) = one;
            self.gateway.record_unopened(&format!(
                "the stored credentials of the integration `{id}` of the organisation \
                    `{organisation}` cannot be decrypted: {error}"
            ));
        }
        if !now.is_empty() {
            unopened.insert(Arc::clone(organisation), now);
        }
    }

    /// Returns the dependencies shared by an organisation's clients, for another client.
    pub(crate) fn surroundings_of(&self, organisation: &str) -> Surroundings {
        if let Some(tenant) = self.organisations.lock().get(organisation) {
            return tenant.around.clone();
        }
        self.surround_organisation()
    }

    /// Creates the dependencies shared by the clients of another organisation.
    fn surround_organisation(&self) -> Surroundings {
        Surroundings {
            connector: Arc::new(self.around.connector.for_organisation()),
            part: Some(self.all.join()),
            ..self.around.clone()
        }
    }

    /// Returns a client for each integration: the existing client, or a new, unstarted one.
    fn connect(
        &self,
        snapshot: &OrganisationSnapshot,
        around: &Surroundings,
        old: &Integrations,
    ) -> Integrations {
        let mut integrations = Integrations::new();
        for integration in &snapshot.integrations {
            let connected = match old.get(&integration.id) {
                Some(old) if is_reached_alike(&old.integration, integration) => {
                    old.memory.adopt(integration);
                    Some(Connected { integration: Arc::clone(integration), ..old.clone() })
                }
                old => {
                    let wanted = WantedClient { integration, old, is_on: true };
                    self.make_client(&snapshot.organisation, around, wanted)
                }
            };
            if let Some(connected) = connected {
                integrations.insert(Arc::clone(&integration.id), connected);
            }
        }
        integrations
    }

    fn make_client(
        &self,
        organisation: &Arc<str>,
        around: &Surroundings,
        WantedClient { integration, old, is_on }: WantedClient<'_>,
    ) -> Option<Connected> {
        // The registry reports why a credential cannot be used.
        let headers = integration.credential.headers()?;
        let transport = Transport::Http { url: integration.url.clone(), headers };
        let mut config = lockgate_upstream::Config::of_organisation(
            Arc::clone(organisation),
            integration.slug.to_string(),
            transport,
            self.addresses_of(integration),
        );
        config.enabled = is_on;
        let memory = Memory::new(&self.registry, organisation, integration);
        let kept: Arc<dyn CatalogMemory> = Arc::clone(&memory) as _;
        let around = self.surround_members(organisation, integration, around);
        match Client::new(config, Surroundings { memory: Some(kept), ..around.clone() }) {
            Ok(client) => {
                if is_on
                    && let Some(old) = old
                    && old.integration.url == integration.url
                {
                    client.inherit_lists(&old.clients.client);
                }
                let users = self.make_users(&client, integration, &around);
                let clients = ServerClients { client, users };
                Some(Connected { integration: Arc::clone(integration), clients, memory })
            }
            Err(error) => {
                tracing::error!(
                    organisation = &**organisation,
                    server = &*integration.slug,
                    %error,
                    "an integration is omitted"
                );
                None
            }
        }
    }

    /// Connects or disconnects an integration at this gateway only, until it changes or the gateway
    /// restarts. Returns `false` if there is no connection: the integration is unknown or disabled,
    /// or its credentials cannot be decrypted.
    pub(crate) fn switch(&self, organisation: &str, slug: &str, to: Switch) -> bool {
        let mut organisations = self.organisations.lock();
        let Some(tenant) = organisations.get_mut(organisation) else { return false };
        let mut all = tenant.integrations.values();
        let Some(old) = all.find(|one| *one.integration.slug == *slug).cloned() else {
            return false;
        };
        let is_on = old.clients.client.config().enabled;
        match to {
            Switch::Connect if is_on => {
                old.clients.client.revive();
                return true;
            }
            Switch::Disconnect if !is_on => return true,
            Switch::Connect | Switch::Disconnect | Switch::Reconnect => {}
        }
        let wanted = WantedClient {
            integration: &old.integration,
            old: Some(&old),
            is_on: to != Switch::Disconnect,
        };
        let snapshot = Arc::clone(&tenant.snapshot);
        let made = self.make_client(&snapshot.organisation, &tenant.around, wanted);
        let Some(connected) = made else { return false };
        connected.clients.client.start();
        connected.clients.client.revive();
        tenant.integrations.insert(Arc::clone(&old.integration.id), connected);
        self.serve(&snapshot, &tenant.integrations);
        old.clients.retire(&self.retiring);
        true
    }

    /// Returns the addresses that an integration may have. Those in the catalogue were chosen by
    /// the operator.
    fn addresses_of(&self, integration: &IntegrationSnapshot) -> Policy {
        let own = self.around.connector.config().organisations;
        if integration.is_predefined { Policy::Operator } else { own }
    }

    /// Passes an organisation's servers and agents to the request path.
    fn serve(&self, snapshot: &OrganisationSnapshot, integrations: &Integrations) {
        let servers: Vec<Arc<dyn Upstream>> =
            integrations.values().map(|connected| connected.clients.server()).collect();
        let agents = snapshot.agents.iter().map(|agent| describe_agent(agent, integrations));
        self.gateway.set_organisation(&snapshot.organisation, servers, agents.collect());
    }

    /// Closes all connections, including those to the store.
    pub(crate) async fn close(&self) {
        let organisations = std::mem::take(&mut *self.organisations.lock());
        let integrations = organisations.into_values().flat_map(|tenant| tenant.integrations);
        let clients = integrations.map(|(_, connected)| connected.clients);
        ServerClients::close_all(clients, &self.retiring).await;
        self.keep_last_usage().await;
        self.registry.close().await;
    }
}

/// Reports whether this client serves the integration.
fn has_client(integrations: &Integrations, id: &str, client: &Arc<Client>) -> bool {
    integrations.get(id).is_some_and(|connected| Arc::ptr_eq(&connected.clients.client, client))
}

/// Reports whether a time in milliseconds since 1970 is within a minute of now, before or after.
fn is_recent(time: i64) -> bool {
    date::now_ms().abs_diff(time) < RECENT_MS
}

/// Reports whether two versions of an integration are the same server, reached in the same way. A
/// changed name does not affect the connection.
fn is_reached_alike(old: &IntegrationSnapshot, new: &IntegrationSnapshot) -> bool {
    old.slug == new.slug && old.url == new.url && old.credential == new.credential
}

/// Describes an agent for the request path, by the operator's servers and those of integrations
/// that have a client.
fn describe_agent(known: &AgentSnapshot, integrations: &Integrations) -> AgentServers {
    let agent = &known.agent;
    let hidden = known.hidden.iter();
    let hidden = hidden
        .filter_map(|(id, tools)| Some((find_server_id(id, integrations)?, tools.clone())))
        .collect();
    let items = if agent.items.is_empty() { None } else { Some(agent.items.as_str().into()) };
    AgentServers {
        id: agent.id.clone(),
        owner: AgentOwner {
            issuer: agent.owner_issuer.clone(),
            subject: agent.owner_subject.clone(),
        },
        servers: known.servers.iter().filter_map(|id| find_server_id(id, integrations)).collect(),
        hidden,
        items,
        mode: match agent.tools.as_str() {
            "full" => Some(ToolsMode::Full),
            "search" => Some(ToolsMode::Search),
            "auto" => Some(ToolsMode::Auto),
            _ => None,
        },
    }
}

/// Returns the server of an agent's record: an integration with a client, or a server of the
/// operator by its slug.
fn find_server_id(id: &str, integrations: &Integrations) -> Option<ServerId> {
    match integrations.get(id) {
        Some(connected) => Some(ServerId::of(&*connected.clients.client)),
        None if is_integration(id) => None,
        None => Some(ServerId::shared(id)),
    }
}
