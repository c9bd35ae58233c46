//! An integration as everybody may see it who may see it at all: without its credentials.

use lockgate_store::{IntegrationRecord, Secret};
use serde::{Deserialize, Serialize};

use crate::error::InvalidField;
use crate::field;

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
    pub url: String,
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

/// How the gateway shows the server who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    #[default]
    None,
    /// The credential is the value of this header, in lower case.
    ApiKey { header: String },
    /// The credential follows `Bearer` in `authorization`.
    BearerToken,
}

/// What a new integration is made of.
#[derive(Clone, Debug)]
pub struct NewIntegration {
    pub name: String,
    /// Without one, it is made of the name.
    pub slug: Option<String>,
    pub kind: Kind,
    pub catalogue: Option<String>,
    pub url: String,
    pub auth: Auth,
    /// The key or the token itself; sealed at once, and never shown again.
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

impl Auth {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ApiKey { .. } => "api_key",
            Self::BearerToken => "bearer_token",
        }
    }

    pub(crate) fn header(&self) -> Option<&str> {
        match self {
            Self::ApiKey { header } => Some(header),
            Self::None | Self::BearerToken => None,
        }
    }

    /// The method with its header checked and in lower case.
    pub(crate) fn checked(self) -> Result<Self, InvalidField> {
        match self {
            Self::ApiKey { header } => Ok(Self::ApiKey { header: field::header_name(&header)? }),
            other => Ok(other),
        }
    }
}

impl Integration {
    pub(crate) fn from_record(record: &IntegrationRecord) -> Self {
        let auth = match (record.auth.as_str(), &record.auth_header) {
            ("api_key", Some(header)) => Auth::ApiKey { header: header.clone() },
            ("bearer_token", _) => Auth::BearerToken,
            _ => Auth::None,
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
            url: record.url.clone(),
            auth,
            has_credentials: record.sealed.is_some(),
            enabled: record.enabled,
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}
