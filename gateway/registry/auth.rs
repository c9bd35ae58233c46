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

    /// Returns the method stored in a record.
    pub(crate) fn of_record(record: &IntegrationRecord) -> Self {
        match (record.auth.as_str(), &record.auth_header) {
            ("api_key", Some(header)) => Self::ApiKey { header: header.clone() },
            ("bearer_token", _) => Self::BearerToken,
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
            other => Ok(other),
        }
    }
}
