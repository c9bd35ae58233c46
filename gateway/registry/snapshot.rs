//! What the data plane needs of one organisation, immutable and replaced as one. Credentials are
//! opened here and nowhere else.

use std::sync::Arc;

use lockgate_store::{Field, IntegrationRecord, OrganisationRecords, Secret, Vault, VaultError};
use url::Url;

use crate::actor::PrincipalKey;
use crate::integration::{Auth, Integration};

/// One organisation for the data plane, as of one revision.
#[derive(Clone, Debug, Default)]
pub struct OrganisationSnapshot {
    pub organisation: Arc<str>,
    /// Greater than that of every earlier one.
    pub revision: i64,
    /// Those that are enabled. A slug that the operator's file has taken since is still here: who
    /// merges both lets the file's server win.
    pub integrations: Vec<Arc<IntegrationSnapshot>>,
    pub agents: Vec<Arc<AgentSnapshot>>,
}

/// An enabled integration, with what is needed to connect. Two with equal id and version are equal
/// in all.
#[derive(Clone, Debug)]
pub struct IntegrationSnapshot {
    pub id: Arc<str>,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub version: i64,
    pub url: Url,
    pub credential: CredentialState,
}

impl PartialEq for IntegrationSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.version == other.version && self.credential == other.credential
    }
}

/// How the gateway shows the server who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialState {
    /// The server wants none.
    None,
    Ready(Credential),
    /// It cannot be opened: do not connect without it, and say why.
    Unusable(VaultError),
}

/// A header that every request to the server carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// In lower case.
    pub header: Arc<str>,
    pub value: Secret,
}

/// An agent with what is assigned to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSnapshot {
    pub id: Arc<str>,
    pub owner: PrincipalKey,
    /// Ids of integrations, disabled ones too, in the order in which they were assigned.
    pub integrations: Vec<Arc<str>>,
}

impl OrganisationSnapshot {
    pub(crate) fn new(records: &OrganisationRecords, vault: &Vault) -> Self {
        let mut integrations = Vec::new();
        for record in &records.integrations {
            if record.enabled
                && let Some(integration) = IntegrationSnapshot::new(record, vault)
            {
                integrations.push(Arc::new(integration));
            }
        }
        let mut agents = Vec::with_capacity(records.agents.len());
        for record in &records.agents {
            let own = records.assignments.iter().filter(|one| one.agent == record.id);
            agents.push(Arc::new(AgentSnapshot {
                id: record.id.as_str().into(),
                owner: PrincipalKey {
                    issuer: record.owner_issuer.clone(),
                    subject: record.owner_subject.clone(),
                },
                integrations: own.map(|one| one.integration.as_str().into()).collect(),
            }));
        }
        Self {
            organisation: records.id.as_str().into(),
            revision: records.revision,
            integrations,
            agents,
        }
    }
}

impl IntegrationSnapshot {
    fn new(record: &IntegrationRecord, vault: &Vault) -> Option<Self> {
        let Ok(url) = Url::parse(&record.url) else {
            tracing::error!(integration = record.id, "the stored address is none: left out");
            return None;
        };
        let credential = open_credential(record, &url, vault);
        if let CredentialState::Unusable(error) = &credential {
            tracing::error!(
                integration = record.id,
                organisation = record.organisation,
                %error,
                "the stored credentials do not open"
            );
        }
        Some(Self {
            id: record.id.as_str().into(),
            slug: record.slug.as_str().into(),
            name: record.name.as_str().into(),
            version: record.version,
            url,
            credential,
        })
    }
}

fn open_credential(record: &IntegrationRecord, url: &Url, vault: &Vault) -> CredentialState {
    let auth = Integration::from_record(record).auth;
    let field = name_field(&auth, url);
    let header = match auth {
        Auth::None => return CredentialState::None,
        Auth::ApiKey { header } => header,
        Auth::BearerToken => "authorization".to_owned(),
    };
    let Some(sealed) = &record.sealed else {
        return CredentialState::Unusable(VaultError::Altered);
    };
    let place = Field { organisation: &record.organisation, record: &record.id, field: &field };
    match vault.open(&place, sealed) {
        Ok(secret) if record.auth == "bearer_token" => CredentialState::Ready(Credential {
            header: header.into(),
            value: Secret::new(format!("Bearer {}", secret.expose())),
        }),
        Ok(value) => CredentialState::Ready(Credential { header: header.into(), value }),
        Err(error) => CredentialState::Unusable(error),
    }
}

/// The field that credentials are sealed for. It names who gets them and how, so that whoever
/// writes another address into the database has them sent to nobody.
pub(crate) fn name_field(auth: &Auth, url: &Url) -> String {
    let origin = url.origin().ascii_serialization();
    format!("credentials {} {} {origin}", auth.method(), auth.header().unwrap_or_default())
}
