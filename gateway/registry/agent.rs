//! An agent: a set of assigned integrations with its own endpoint, owned by a principal.

use lockgate_store::AgentRecord;
use serde::{Deserialize, Serialize};

use crate::actor::PrincipalKey;

/// An agent of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// `agt_` and 32 random hexadecimal digits.
    pub id: String,
    pub organisation: String,
    /// The creator; administrators may change the agent too.
    pub owner: PrincipalKey,
    /// For people; unique among the agents of its owner, ignoring case.
    pub name: String,
    /// The form of its list of tools, `full`, `search` or `auto`; empty for the operator's setting.
    #[serde(default)]
    pub tools: String,
    /// The chosen items as JSON; empty for all items of its servers.
    #[serde(default)]
    pub items: String,
    /// Starts at 1; incremented by every change except assignments.
    pub version: i64,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
}

/// Parameters of a new agent. The creator becomes the owner.
#[derive(Clone, Debug)]
pub struct NewAgent {
    pub name: String,
}

/// Changes of an agent; omitted fields keep their value.
#[derive(Clone, Debug, Default)]
pub struct AgentPatch {
    pub name: Option<String>,
    /// As [`Agent::tools`].
    pub tools: Option<String>,
    /// As [`Agent::items`].
    pub items: Option<String>,
}

impl Agent {
    pub(crate) fn from_record(record: &AgentRecord) -> Self {
        let owner = PrincipalKey {
            issuer: record.owner_issuer.clone(),
            subject: record.owner_subject.clone(),
        };
        Self {
            id: record.id.clone(),
            organisation: record.organisation.clone(),
            owner,
            name: record.name.clone(),
            tools: record.tools.clone(),
            items: record.items.clone(),
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}
