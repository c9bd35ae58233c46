//! An integration as its organisation's members see it: without its credentials.

use lockgate_store::{IntegrationRecord, Secret};
use serde::{Deserialize, Serialize};

use crate::auth::Auth;
use crate::catalogue::{Catalogue, find_entry};

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

/// Parameters of a new integration with an address.
#[derive(Clone, Debug)]
pub struct NewIntegration {
    pub name: String,
    /// Derived from the name by default.
    pub slug: Option<String>,
    pub url: String,
    pub auth: Auth,
    /// The plain key or token; encrypted when stored, and never shown again.
    pub credentials: Option<Secret>,
    pub enabled: bool,
    /// As [`Integration::source`].
    pub source: Option<String>,
}

/// Parameters of a new integration from the catalogue.
#[derive(Clone, Debug)]
pub struct NewPredefined {
    /// The slug of the entry; also of the integration, unless taken.
    pub entry: String,
    /// The entry's title by default.
    pub name: Option<String>,
    /// As [`NewIntegration::credentials`].
    pub credentials: Option<Secret>,
    pub enabled: bool,
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
        let auth = match find_entry(catalogue, record) {
            Some(entry) => entry.auth.clone(),
            None => Auth::of_record(record),
        };
        let kind = match record.kind.as_str() {
            "predefined" => IntegrationKind::Predefined,
            _ => IntegrationKind::Custom,
        };
        Self {
            id: record.id.clone(),
            organisation: record.organisation.clone(),
            slug: record.slug.clone(),
            name: record.name.clone(),
            kind,
            catalogue: record.catalogue.clone(),
            source: record.source.clone(),
            url: match kind {
                IntegrationKind::Custom => Some(record.url.clone()),
                IntegrationKind::Predefined => None,
            },
            auth,
            has_credentials: record.sealed.is_some(),
            enabled: record.enabled,
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}
