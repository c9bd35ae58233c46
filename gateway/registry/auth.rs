//! How the gateway authenticates to a server.

use lockgate_store::IntegrationRecord;
use serde::{Deserialize, Serialize};

use crate::error::InvalidField;
use crate::field;

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
