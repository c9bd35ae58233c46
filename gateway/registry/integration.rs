//! An integration as everybody may see it who may see it at all: without its credentials.

use lockgate_store::{IntegrationRecord, Secret};
use serde::{Deserialize, Serialize};

use crate::auth::Auth;
use crate::catalogue::{Catalogue, find_entry};

/// A server that an organisation's administrator added while the gateway runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    /// `int_` and 32 hexadecimal digits, at random.
    pub id: String,
    pub organisation: String,
    /// The namespace of its tools; unique among the operator's servers and the organisation's. It
    /// never changes, because clients know tools by it.
    pub slug: String,
    /// For people; unique in the organisation, in whatever case.
    pub name: String,
    pub kind: Kind,
    /// The entry of the operator's catalogue that it was made from.
    pub catalogue: Option<String>,
    /// None of one from the catalogue: where that is, is the operator's to know.
    pub url: Option<String>,
    pub auth: Auth,
    pub has_credentials: bool,
    pub enabled: bool,
    /// Counts its changes, from 1.
    pub version: i64,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
}

/// Where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Custom,
    /// From the operator's catalogue.
    Predefined,
}

/// What a new integration by its address is made of.
#[derive(Clone, Debug)]
pub struct NewIntegration {
    pub name: String,
    /// Without one, it is made of the name.
    pub slug: Option<String>,
    pub url: String,
    pub auth: Auth,
    /// The key or the token itself; sealed at once, and never shown again.
    pub credentials: Option<Secret>,
    pub enabled: bool,
}

/// What a new integration from the catalogue is made of.
#[derive(Clone, Debug)]
pub struct NewPredefined {
    /// The slug of the entry; that of the integration too, unless it is taken.
    pub entry: String,
    /// Without one, the entry's title.
    pub name: Option<String>,
    /// As [`NewIntegration::credentials`].
    pub credentials: Option<Secret>,
    pub enabled: bool,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Custom => "custom",
            Self::Predefined => "predefined",
        }
    }
}

impl Integration {
    /// As its entry of the catalogue says, where it has one.
    pub(crate) fn from_record(record: &IntegrationRecord, catalogue: &Catalogue) -> Self {
        let auth = match find_entry(catalogue, record) {
            Some(entry) => entry.auth.clone(),
            None => Auth::of_record(record),
        };
        let kind = match record.kind.as_str() {
            "predefined" => Kind::Predefined,
            _ => Kind::Custom,
        };
        Self {
            id: record.id.clone(),
            organisation: record.organisation.clone(),
            slug: record.slug.clone(),
            name: record.name.clone(),
            kind,
            catalogue: record.catalogue.clone(),
            url: match kind {
                Kind::Custom => Some(record.url.clone()),
                Kind::Predefined => None,
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
