//! Integrations as their organisation's members see them, and the operator's catalogue:
//! servers that organisations add by name, without seeing their address. An integration follows its
//! entry: it uses the entry's current address, and is unavailable once the entry is removed.
//! Credentials given for a host are never sent to another host.

use std::collections::BTreeMap;

use lockgate_store::{IntegrationRecord, Secret};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::InvalidField;
use crate::field;

/// A server that an organisation's administrator added while the gateway runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    /// `int_` and 32 random hexadecimal digits.
    pub id: String,
    pub organisation: String,
    /// The namespace of its tools; unique among the operator's servers and the organisation's.
    /// Never changes, because it is part of the tool names that clients use.
    pub slug: String,
    /// For people; unique in the organisation, ignoring case.
    pub name: String,
    pub kind: IntegrationKind,
    /// The slug of the catalogue entry it was made from.
    pub catalogue: Option<String>,
    /// The server of the operator's registry that it was made from: `name@version`.
    #[serde(default)]
    pub source: Option<String>,
    /// `None` for a predefined integration: the catalogue's addresses are for the operator only.
    pub url: Option<String>,
    pub auth: Auth,
    pub has_credentials: bool,
    pub enabled: bool,
    /// Starts at 1; incremented by every change.
    pub version: i64,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
}

lockgate_text::words! {
    /// The source of an integration.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum IntegrationKind {
        Custom = "custom",
        /// From the operator's catalogue.
        Predefined = "predefined",
    }
}

/// Parameters of a new integration, or the desired state of one.
#[derive(Clone, Debug)]
pub struct NewIntegration {
    /// `None` for the title of the catalogue's entry.
    pub name: Option<String>,
    /// Derived from the name or the entry by default.
    pub slug: Option<String>,
    pub origin: Origin,
    /// The plain key or token; encrypted when stored, and never shown again. In a set, `None` keeps
    /// the stored one.
    pub credentials: Option<Secret>,
    /// `None` keeps the current value; new integrations are enabled.
    pub enabled: Option<bool>,
    /// As [`Integration::source`].
    pub source: Option<String>,
}

/// The address of a new integration, or the slug of its catalogue entry.
#[derive(Clone, Debug)]
pub enum Origin {
    Custom { url: String, auth: Auth },
    Predefined(String),
}

/// Changes of an integration; omitted fields keep their value. Its slug and its kind never change.
#[derive(Clone, Debug, Default)]
pub struct IntegrationPatch {
    pub name: Option<String>,
    /// A changed address, apart from a trailing `/`, requires new credentials: otherwise a user
    /// could have the stored secret sent to an address of their choice. Not allowed, like `auth`,
    /// for predefined integrations.
    pub url: Option<String>,
    /// A changed method or header requires new credentials.
    pub auth: Option<Auth>,
    pub credentials: Option<Secret>,
    pub enabled: Option<bool>,
}

impl AsRef<[Self]> for Integration {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}

impl Integration {
    /// Converts a record. The authentication method is the catalogue entry's, if any.
    pub(crate) fn from_record(record: &IntegrationRecord, catalogue: &Catalogue) -> Self {
        let entry = find_entry(catalogue, record);
        let kind = IntegrationKind::parse(&record.kind).unwrap_or(IntegrationKind::Custom);
        Self {
            id: record.id.clone(),
            organisation: record.organisation.clone(),
            slug: record.slug.clone(),
            name: record.name.clone(),
            kind,
            catalogue: record.catalogue.clone(),
            source: record.source.clone(),
            url: (kind == IntegrationKind::Custom).then(|| record.url.clone()),
            auth: entry.map_or_else(|| Auth::of_record(record), |entry| entry.auth.clone()),
            has_credentials: record.sealed.is_some(),
            enabled: record.enabled,
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

/// How the gateway authenticates to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    #[default]
    None,
    /// The credential is the value of this header, which is in lower case.
    ApiKey { header: String },
    /// The credential follows `Bearer` in `authorization`.
    BearerToken,
    /// Each member connects its own account (OAuth).
    User,
    /// Each member enters its own key, the value of this header, or a bearer token without one.
    UserHeaders { header: Option<String> },
}

impl Auth {
    /// Returns the name of the method.
    pub fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ApiKey { .. } => "api_key",
            Self::BearerToken => "bearer_token",
            Self::User => "user",
            Self::UserHeaders { .. } => "user_headers",
        }
    }

    /// Returns whether each member has an own account or key.
    pub fn is_of_members(&self) -> bool {
        matches!(self, Self::User | Self::UserHeaders { .. })
    }

    /// Returns whether the credential is the organisation's, and stored with the integration.
    pub(crate) fn needs_credentials(&self) -> bool {
        matches!(self, Self::ApiKey { .. } | Self::BearerToken)
    }

    /// Returns the header of the credential, if it is not `authorization`.
    pub fn header(&self) -> Option<&str> {
        match self {
            Self::ApiKey { header } => Some(header),
            Self::UserHeaders { header } => header.as_deref(),
            Self::None | Self::BearerToken | Self::User => None,
        }
    }

    /// Returns the method stored in a record.
    pub(crate) fn of_record(record: &IntegrationRecord) -> Self {
        match (record.auth.as_str(), &record.auth_header) {
            ("api_key", Some(header)) => Self::ApiKey { header: header.clone() },
            ("bearer_token", _) => Self::BearerToken,
            ("user", _) => Self::User,
            ("user_headers", header) => Self::UserHeaders { header: header.clone() },
            _ => Self::None,
        }
    }

    /// Validates the header's name, and returns the method with the name in lower case.
    ///
    /// # Errors
    /// An invalid name, or a header that the gateway writes itself.
    pub fn checked(self) -> Result<Self, InvalidField> {
        match self {
            Self::ApiKey { header } => Ok(Self::ApiKey { header: field::header_name(&header)? }),
            Self::UserHeaders { header: Some(header) } => {
                Ok(Self::UserHeaders { header: Some(field::header_name(&header)?) })
            }
            other => Ok(other),
        }
    }
}

/// Entries by slug.
pub type Catalogue = BTreeMap<String, CatalogueEntry>;

/// A server that organisations may add.
#[derive(Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// For people.
    pub title: String,
    pub description: Option<String>,
    /// Not shown to organisations.
    pub url: Url,
    pub auth: Auth,
}

// Omits the address, which is for the operator only.
lockgate_text::debug_fields!(CatalogueEntry: title);

impl CatalogueEntry {
    /// Returns whether a record's credentials may be sent to the entry's current address: the host,
    /// method and header have to be unchanged.
    pub(crate) fn takes_credentials_of(&self, record: &IntegrationRecord) -> bool {
        let Ok(given_for) = Url::parse(&record.url) else { return false };
        given_for.origin() == self.url.origin()
            && record.auth == self.auth.method()
            && record.auth_header.as_deref() == self.auth.header()
    }
}

/// Returns the entry that a record was made from, if it still exists.
pub(crate) fn find_entry<'a>(
    catalogue: &'a Catalogue,
    record: &IntegrationRecord,
) -> Option<&'a CatalogueEntry> {
    catalogue.get(record.catalogue.as_deref()?)
}

/// Changes of an agent; omitted fields keep their value.
#[derive(Clone, Debug, Default)]
pub struct AgentPatch {
    pub name: Option<String>,
    /// As [`lockgate_store::Agent::tools`].
    pub tools: Option<String>,
    /// As [`lockgate_store::Agent::items`].
    pub items: Option<String>,
}
