//! Integrations in the API: never with their credentials, and with their address only for callers
//! that may change them.

use std::collections::{HashMap, HashSet};

use lockgate_registry::{
    Auth, Changed, CredentialState, Integration as Stored, IntegrationKind, OrganisationSnapshot,
    Warning as Said,
};
use lockgate_text::date;
use lockgate_upstream::Upstream;

use crate::api::operation::*;
use crate::api::problem::name_member;
use crate::fault::Fault;

types! {
/// An integration.
output pub(crate) struct Integration {
    pub(crate) id: String,
    pub(crate) name: String,
    /// `custom` or `predefined`.
    pub(crate) r#type: &'static str,
    /// The namespace of its tools. It does not change. A predefined integration has that of its
    /// entry in the catalogue, unless it was taken.
    pub(crate) slug: String,
    /// For custom integrations; shown to administrators.
    pub(crate) server_url: Option<String>,
    /// Its entry in the operator's catalogue.
    pub(crate) predefined: Option<String>,
    /// Its server in the operator's registry: `name@version`.
    pub(crate) source: Option<String>,
    /// `none`, `api_key`, `bearer_token`, `user` or `user_headers`.
    pub(crate) auth_method: &'static str,
    /// Shown to administrators.
    pub(crate) header_name: Option<String>,
    pub(crate) has_credentials: bool,
    pub(crate) enabled: bool,
    pub(crate) organization_id: String,
    /// Increases with each change; also the `ETag` of the response, for `If-Match`.
    pub(crate) version: i64,
    /// RFC 3339.
    pub(crate) created_at: String,
    /// RFC 3339.
    pub(crate) updated_at: String,
    /// As for servers; `disabled` if it is switched off.
    pub(crate) state: &'static str,
    /// The stage that failed, as for servers.
    pub(crate) stage: Option<String>,
    /// The cause of this state.
    pub(crate) reason: String,
    /// The failure, its cause and the fix; absent if the server works.
    pub(crate) fault: Option<Fault>,
    /// Warnings about accepted values, in the response to a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<Warning>,
    /// Set if this was a dry run.
    pub(crate) dry_run: bool,
    /// Ids of the agents that the change would affect, in a dry run.
    pub(crate) affected_agents: Option<Vec<String>>,
    /// Whether it has a server, or gets one at its first use; for the console.
    #[serde(skip)]
    pub(crate) has_server: bool,
}

/// A warning about an accepted value.
#[cfg_attr(test, schema(as = IntegrationWarning))]
output pub(crate) struct Warning {
    pub(crate) code: String,
    /// Its location in the body, such as `#/serverUrl`.
    pub(crate) pointer: String,
    pub(crate) message: String,
}
}

/// The current states of the servers of the caller's organisation.
pub(crate) struct States<'a> {
    by: &'a Context,
    servers: HashMap<String, Arc<dyn Upstream>>,
    /// The slugs of the operator's servers.
    shared: HashSet<String>,
    snapshot: Arc<OrganisationSnapshot>,
    /// The positions of the integrations of the snapshot, by slug.
    positions: HashMap<String, usize>,
}

impl<'a> States<'a> {
    pub(crate) fn of(by: &'a Context) -> Self {
        let organisation = by.caller.organisation();
        let gateway = &by.state.gateway;
        let servers = gateway.directory.servers_of(Some(organisation)).into_iter();
        let servers = servers.map(|server| (server.slug().to_owned(), server)).collect();
        let shared = gateway.servers().iter().map(|one| one.slug().to_owned()).collect();
        let registry = by.state.operations.registry();
        let snapshot = registry.map(|one| one.snapshot(organisation)).unwrap_or_default();
        let known = snapshot.integrations.iter().enumerate();
        let positions = known.map(|(position, one)| (one.slug.to_string(), position)).collect();
        Self { by, servers, shared, snapshot, positions }
    }

    fn describe(&self, stored: &Stored) -> Described {
        if !stored.enabled {
            return Described::new("disabled", "it is switched off");
        }
        if self.shared.contains(&stored.slug) {
            let reason = "a server of the configuration has the same slug and takes precedence; \
                recreate the integration with another slug";
            return Described::new("failed", reason);
        }
        let known = self.positions.get(&stored.slug);
        match known.map(|position| &self.snapshot.integrations[*position].credential) {
            Some(CredentialState::Unusable(_)) => {
                return Described::new(
                    "needs-auth",
                    "its stored credentials cannot be decrypted: enter them again",
                );
            }
            Some(CredentialState::Outdated) => {
                let reason = "the operator changed this entry of the catalogue: enter its \
                    credentials again";
                return Described::new("needs-auth", reason);
            }
            None if stored.kind == IntegrationKind::Predefined => {
                let reason = "its entry was removed from the operator's catalogue: it is not \
                    connected";
                return Described::new("failed", reason);
            }
            _ => {}
        }
        let Some(server) = self.servers.get(&stored.slug) else {
            return Described::new("pending", "it connects at its first use");
        };
        let status = server.status();
        Described {
            state: status.state.as_str(),
            reason: status.reason(),
            fault: Fault::find(&self.by.state.gateway, &**server, false, true),
        }
    }
}

struct Described {
    state: &'static str,
    reason: String,
    fault: Option<Fault>,
}

impl Described {
    fn new(state: &'static str, reason: &str) -> Self {
        Self { state, reason: reason.to_owned(), fault: None }
    }
}

impl Integration {
    pub(crate) fn new(states: &States<'_>, stored: Stored) -> Self {
        let may_change = states.by.caller.role >= Role::Admin;
        let is_custom = stored.kind == IntegrationKind::Custom;
        let now = states.describe(&stored);
        let is_reachable = stored.enabled && !states.shared.contains(&stored.slug);
        let is_known = states.servers.contains_key(&stored.slug) || now.state == "pending";
        let has_server = is_reachable && is_known;
        let (auth_method, header_name) = describe_auth(&stored.auth);
        let server_url = stored.url.filter(|_| may_change);
        Self {
            r#type: if is_custom { "custom" } else { "predefined" },
            server_url,
            predefined: stored.catalogue,
            source: stored.source,
            auth_method,
            header_name: header_name.filter(|_| may_change),
            id: stored.id,
            name: stored.name,
            slug: stored.slug,
            has_credentials: stored.has_credentials,
            enabled: stored.enabled,
            organization_id: stored.organisation,
            version: stored.version,
            created_at: write_time(stored.created_at),
            updated_at: write_time(stored.updated_at),
            state: now.state,
            stage: now.fault.as_ref().map(|fault| fault.stage.clone()),
            reason: now.reason,
            fault: now.fault,
            warnings: Vec::new(),
            dry_run: false,
            affected_agents: None,
            has_server,
        }
    }
}

/// Returns the name of the method, and its header.
pub(super) fn describe_auth(auth: &Auth) -> (&'static str, Option<String>) {
    (auth.method(), auth.header().map(str::to_owned))
}

/// Formats a time of the registry, in milliseconds, as RFC 3339.
pub(crate) fn write_time(milliseconds: i64) -> String {
    date::of_seconds(milliseconds.div_euclid(1000))
}

/// Returns the response to a change, except a deletion.
pub(super) fn answer_changed(
    by: &Context,
    status: StatusCode,
    changed: Changed<Stored>,
) -> Result<Reply<Integration>> {
    let is_dry_run = changed.is_dry_run;
    let stored = changed.after.ok_or_else(broken)?;
    let version = Some(stored.version);
    let mut value = show(by, stored, is_dry_run);
    value.warnings = changed.warnings.into_iter().map(Warning::new).collect();
    Ok(Reply::new(value, version).with_status(status, is_dry_run))
}

pub(super) fn answer_deleted(by: &Context, changed: Changed<Stored>) -> Deletion<Integration> {
    let stored = changed.before.filter(|_| changed.is_dry_run);
    Deletion(stored.map(|stored| show(by, stored, true)))
}

/// Returns the integration as a change leaves it; for a dry run with the agents that it would
/// affect.
fn show(by: &Context, stored: Stored, dry_run: bool) -> Integration {
    let affected_agents = dry_run.then(|| by.agents_with(&stored.id));
    Integration { dry_run, affected_agents, ..Integration::new(&States::of(by), stored) }
}

impl Warning {
    pub(crate) fn new(said: Said) -> Self {
        let pointer = format!("#{}", name_member(&said.pointer));
        Self { code: said.code, pointer, message: said.message }
    }

    /// Moves the warning into a part of the body.
    pub(crate) fn within(mut self, part: &str) -> Self {
        self.pointer = format!("#{part}{}", self.pointer.trim_start_matches('#'));
        self
    }
}
