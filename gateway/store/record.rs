//! Rows as they are stored. Times are milliseconds since 1970. Names have a second form for
//! comparison.

use crate::error::StoreError;
use crate::value::Row;

/// A row of `integrations`, with sealed credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrationRecord {
    pub id: String,
    pub organisation: String,
    pub slug: String,
    pub name: String,
    /// The form of the name for comparison.
    pub name_key: String,
    pub kind: String,
    /// The entry of the operator's catalogue that the integration was created from.
    pub catalogue: Option<String>,
    /// The name and the version of its server in the operator's registry.
    pub source: Option<String>,
    pub url: String,
    pub auth: String,
    pub auth_header: Option<String>,
    pub sealed: Option<Vec<u8>>,
    pub enabled: bool,
    pub version: i64,
    pub created_at: i64,
    pub updated_at: i64,
}

/// A row of `agents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
    pub id: String,
    pub organisation: String,
    pub name: String,
    /// The form of the name for comparison.
    pub name_key: String,
    pub owner_issuer: String,
    pub owner_subject: String,
    /// The form of its list of tools; empty for the operator's setting.
    pub tools: String,
    /// The chosen items as JSON; empty for all items of its servers.
    pub items: String,
    pub version: i64,
    pub created_at: i64,
    pub updated_at: i64,
}

/// A row of `assignments` or `agent_servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentRecord {
    pub agent: String,
    /// The id of an integration, or the slug of a server of the operator.
    pub server: String,
}

/// A row of `agent_hidden_tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenToolRecord {
    pub agent: String,
    /// As in [`AssignmentRecord`].
    pub server: String,
    /// The server's own name of the tool.
    pub tool: String,
}

/// All rows of an organisation, as of the same moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrganisationRecords {
    pub id: String,
    /// Revision of the last change. Revisions of all organisations are in a total order.
    pub revision: i64,
    pub created_at: i64,
    pub integrations: Vec<IntegrationRecord>,
    pub agents: Vec<AgentRecord>,
    pub assignments: Vec<AssignmentRecord>,
    pub hidden_tools: Vec<HiddenToolRecord>,
    /// Ids of unreadable rows, which are left out.
    pub unreadable: Vec<String>,
}

impl IntegrationRecord {
    pub(crate) fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("id")?,
            organisation: row.get("organisation")?,
            slug: row.get("slug")?,
            name: row.get("name")?,
            name_key: row.get("name_key")?,
            kind: row.get("kind")?,
            catalogue: row.get("catalogue")?,
            source: row.get("source")?,
            url: row.get("url")?,
            auth: row.get("auth")?,
            auth_header: row.get("auth_header")?,
            sealed: row.get("sealed")?,
            enabled: row.get::<i64>("enabled")? != 0,
            version: row.get("version")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl AgentRecord {
    pub(crate) fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("id")?,
            organisation: row.get("organisation")?,
            name: row.get("name")?,
            name_key: row.get("name_key")?,
            owner_issuer: row.get("owner_issuer")?,
            owner_subject: row.get("owner_subject")?,
            tools: row.get("tools")?,
            items: row.get("items")?,
            version: row.get("version")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}
