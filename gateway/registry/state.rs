//! All stored data of each organisation, in memory, so that reads never wait for the store, and the
//! data plane's immutable view of it, replaced as a whole. Credentials are decrypted here and
//! nowhere else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lockgate_store::{
    Agent, Field, IntegrationRecord, OrganisationRecords, Secret, Vault, VaultError,
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::actor::Actor;
use crate::error::{RegistryError, Result};
use crate::objects::{Auth, Catalogue, Integration, find_entry};

/// An organisation as of a revision.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OrganisationState {
    pub(crate) created_at: i64,
    pub(crate) integrations: Vec<Integration>,
    pub(crate) snapshot: Arc<OrganisationSnapshot>,
    /// Kept if the catalogue determines parts of the state, to rebuild it when the catalogue
    /// changes.
    pub(crate) records: Option<Arc<OrganisationRecords>>,
}

impl OrganisationState {
    /// Builds the state. Credentials that were decrypted in `before` stay so.
    pub(crate) fn new(
        records: &OrganisationRecords,
        vault: &Vault,
        catalogue: &Catalogue,
        before: Option<&Self>,
    ) -> Self {
        let integrations = records.integrations.iter();
        let integrations =
            integrations.map(|record| Integration::from_record(record, catalogue)).collect();
        let before = before.map(|before| &*before.snapshot);
        let snapshot = OrganisationSnapshot::new(records, vault, catalogue, before);
        let follows = records.integrations.iter().any(|record| record.catalogue.is_some());
        Self {
            created_at: records.created_at,
            integrations,
            snapshot: Arc::new(snapshot),
            records: if follows { Some(Arc::new(records.clone())) } else { None },
        }
    }

    /// Describes the organisation for operators.
    pub(crate) fn describe(&self, id: &str) -> Organisation {
        Organisation {
            id: id.to_owned(),
            created_at: self.created_at,
            integrations: self.integrations.len(),
            agents: self.snapshot.agents.len(),
        }
    }

    pub(crate) fn find_integration(&self, id: &str) -> Option<&Integration> {
        self.integrations.iter().find(|integration| integration.id == id)
    }

    /// Returns an agent that the actor may see.
    pub(crate) fn find_agent(&self, actor: &Actor, id: &str) -> Result<&AgentSnapshot> {
        let mut agents = self.snapshot.agents.iter();
        let found = agents.find(|known| known.agent.id == id);
        let found = found.filter(|known| actor.may_touch(&known.agent));
        found.map(|known| &**known).ok_or(RegistryError::AgentNotFound)
    }
}

/// An organisation for the data plane, as of a revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrganisationSnapshot {
    pub organisation: Arc<str>,
    /// Greater than all earlier revisions, unless the database was restored from a backup.
    pub revision: i64,
    /// Enabled integrations; predefined integrations only while their catalogue entry exists.
    /// Includes slugs that the operator's file has taken since: in a merge, the file's server wins.
    pub integrations: Vec<Arc<IntegrationSnapshot>>,
    pub agents: Vec<Arc<AgentSnapshot>>,
}

/// An enabled integration, with the data needed to connect. Compared by id, version, address and
/// credential; every edit changes the version.
#[derive(Clone, Debug)]
pub struct IntegrationSnapshot {
    pub id: Arc<str>,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub version: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    pub url: Url,
    /// Whether the address comes from the operator's catalogue.
    pub is_predefined: bool,
    pub credential: CredentialState,
    /// Why the stored credentials cannot be decrypted. Also set while credentials of the same
    /// version that were decrypted earlier remain in use.
    pub unopened: Option<VaultError>,
}

impl PartialEq for IntegrationSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.version == other.version
            && self.url == other.url
            && self.credential == other.credential
    }
}

/// How the gateway authenticates to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialState {
    /// The server requires none.
    None,
    /// The members of the organisation have their own.
    OfMembers(Auth),
    Ready(Credential),
    /// Decryption failed. Do not connect without the credential; report the error.
    Unusable(VaultError),
    /// The catalogue entry's host or authentication method has changed since the credential was
    /// given. Do not connect without a new credential.
    Outdated,
}

/// A header sent with every request to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// In lower case.
    pub header: Arc<str>,
    pub value: Secret,
}

/// An agent with its assigned integrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSnapshot {
    pub agent: Agent,
    /// Ids of integrations, enabled or not, and slugs of the operator's servers, in the order of
    /// assignment.
    pub servers: Vec<String>,
    pub hidden: HiddenTools,
}

/// The own names of tools that are hidden from an agent, by the id of an integration or the slug of
/// a server of the operator.
pub type HiddenTools = BTreeMap<String, BTreeSet<String>>;

impl OrganisationSnapshot {
    pub(crate) fn new(
        records: &OrganisationRecords,
        vault: &Vault,
        catalogue: &Catalogue,
        before: Option<&Self>,
    ) -> Self {
        let known = before.map_or(&[][..], |before| &before.integrations).iter();
        let known: HashMap<_, _> = known.map(|one| (&*one.id, &**one)).collect();
        let enabled = records.integrations.iter().filter(|record| record.enabled);
        let integrations = enabled.filter_map(|record| {
            let before = known.get(record.id.as_str()).copied();
            let place = find_place(record, catalogue)?;
            Some(Arc::new(IntegrationSnapshot::new(record, place, vault, before)))
        });
        Self {
            organisation: records.id.as_str().into(),
            revision: records.revision,
            integrations: integrations.collect(),
            agents: read_agents(records),
        }
    }
}

fn read_agents(records: &OrganisationRecords) -> Vec<Arc<AgentSnapshot>> {
    let mut assigned: HashMap<&str, Vec<String>> = HashMap::new();
    for record in &records.assignments {
        assigned.entry(&record.agent).or_default().push(record.server.clone());
    }
    let mut hidden: HashMap<&str, HiddenTools> = HashMap::new();
    for record in &records.hidden_tools {
        let servers = hidden.entry(&record.agent).or_default();
        servers.entry(record.server.clone()).or_default().insert(record.tool.clone());
    }
    let agents = records.agents.iter().map(|record| {
        Arc::new(AgentSnapshot {
            agent: record.clone(),
            servers: assigned.remove(record.id.as_str()).unwrap_or_default(),
            hidden: hidden.remove(record.id.as_str()).unwrap_or_default(),
        })
    });
    agents.collect()
}

impl IntegrationSnapshot {
    fn new(
        record: &IntegrationRecord,
        place: IntegrationPlace,
        vault: &Vault,
        before: Option<&Self>,
    ) -> Self {
        let IntegrationPlace { url, auth, takes_credentials } = place;
        let before = before.filter(|before| before.version == record.version && before.url == url);
        let mut credential = if takes_credentials {
            open_credential(record, &auth, vault)
        } else {
            CredentialState::Outdated
        };
        let mut unopened = None;
        if let CredentialState::Unusable(error) = &credential {
            unopened = Some(*error);
            match before.map(|before| &before.credential) {
                // Another gateway with a newer key sealed it again: the credential is the same.
                Some(known @ CredentialState::Ready(ready)) if ready.is_sent_as(record) => {
                    credential = known.clone();
                }
                Some(known) if *known == credential => {}
                _ => tracing::error!(
                    integration = record.id,
                    organisation = record.organisation,
                    %error,
                    "the stored credentials cannot be decrypted"
                ),
            }
        }
        Self {
            id: record.id.as_str().into(),
            slug: record.slug.as_str().into(),
            name: record.name.as_str().into(),
            version: record.version,
            updated_at: record.updated_at,
            url,
            is_predefined: record.catalogue.is_some(),
            credential,
            unopened,
        }
    }
}

impl CredentialState {
    /// Returns the header of the organisation's credential, if requests have one. `None` if they
    /// cannot be made.
    pub fn headers(&self) -> Option<BTreeMap<String, String>> {
        match self {
            Self::None | Self::OfMembers(_) => Some(BTreeMap::new()),
            Self::Ready(credential) => Some([credential.clone().into_header()].into()),
            Self::Unusable(_) | Self::Outdated => None,
        }
    }
}

impl Credential {
    /// Returns the credential with an organisation's secret, if the method has one.
    pub fn new(auth: &Auth, secret: &Secret) -> Option<Self> {
        match auth {
            Auth::None | Auth::User | Auth::UserHeaders { .. } => None,
            Auth::ApiKey { header } => {
                Some(Self { header: header.as_str().into(), value: secret.clone() })
            }
            Auth::BearerToken => Some(Self {
                header: "authorization".into(),
                value: Secret::new(format!("Bearer {}", secret.expose())),
            }),
        }
    }

    /// Returns the name and the value of the header.
    pub fn into_header(self) -> (String, String) {
        (self.header.to_string(), self.value.expose().to_owned())
    }

    /// Returns whether a record requires the credential in the same header.
    fn is_sent_as(&self, record: &IntegrationRecord) -> bool {
        let auth = Auth::of_record(record);
        auth.needs_credentials() && &*self.header == auth.header().unwrap_or("authorization")
    }
}

/// An integration's address and authentication method.
struct IntegrationPlace {
    url: Url,
    auth: Auth,
    /// Whether the stored credentials were given for this address and method.
    takes_credentials: bool,
}

/// Returns `None` if the catalogue entry is gone or the stored address is invalid.
fn find_place(record: &IntegrationRecord, catalogue: &Catalogue) -> Option<IntegrationPlace> {
    if record.catalogue.is_some() {
        let entry = find_entry(catalogue, record)?;
        return Some(IntegrationPlace {
            url: entry.url.clone(),
            auth: entry.auth.clone(),
            takes_credentials: !entry.auth.needs_credentials()
                || entry.takes_credentials_of(record),
        });
    }
    let Ok(url) = Url::parse(&record.url) else {
        tracing::error!(
            integration = record.id,
            "the stored address is invalid: integration \
            skipped"
        );
        return None;
    };
    Some(IntegrationPlace { url, auth: Auth::of_record(record), takes_credentials: true })
}

fn open_credential(record: &IntegrationRecord, auth: &Auth, vault: &Vault) -> CredentialState {
    if *auth == Auth::None {
        return CredentialState::None;
    }
    if auth.is_of_members() {
        return CredentialState::OfMembers(auth.clone());
    }
    match open_sealed(record, vault) {
        Ok(secret) => {
            Credential::new(auth, &secret).map_or(CredentialState::None, CredentialState::Ready)
        }
        Err(error) => CredentialState::Unusable(error),
    }
}

/// Opens the credentials stored for the address and the method of a record.
pub(crate) fn open_sealed(record: &IntegrationRecord, vault: &Vault) -> Result<Secret, VaultError> {
    let sealed = record.sealed.as_ref().ok_or(VaultError::Altered)?;
    let field = name_field(record).ok_or(VaultError::Altered)?;
    vault.open(&place_field(record, &field), sealed)
}

/// Returns the location of the credentials of a record, in a field of this name.
pub(crate) fn place_field<'a>(record: &'a IntegrationRecord, field: &'a str) -> Field<'a> {
    Field { organisation: &record.organisation, record: &record.id, field }
}

/// Returns the name of the field that credentials are sealed for. It binds a credential to its
/// recipient and header: to the whole address, because a host may serve many tenants, or, for a
/// predefined integration, to its entry and host. Editing the address in the database only makes
/// the credential undecryptable.
pub(crate) fn name_field(record: &IntegrationRecord) -> Option<String> {
    let url = Url::parse(&record.url).ok()?;
    let auth = Auth::of_record(record);
    let origin = url.origin().ascii_serialization();
    let header = auth.header().unwrap_or("");
    let way = format!("credentials {} {header}", auth.method());
    if let Some(entry) = &record.catalogue {
        return Some(format!("{way} {origin} of the catalogue: {entry}"));
    }
    let field = format!("{way} {origin}{}", url.path().trim_end_matches('/'));
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{field}{query}"))
}

/// An organisation that was created, or that has stored records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organisation {
    pub id: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub integrations: usize,
    pub agents: usize,
}
