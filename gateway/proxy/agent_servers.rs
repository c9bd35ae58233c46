//! The part of the gateway that an agent may use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_authn::{Principal, Role};
use lockgate_upstream::ServerId;

use crate::config::ToolsMode;

/// The servers that are assigned to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentServers {
    pub id: String,
    pub owner: AgentOwner,
    /// May include servers that do not exist.
    pub servers: BTreeSet<ServerId>,
    /// The own names of tools that the agent cannot list or call.
    pub hidden: BTreeMap<ServerId, BTreeSet<String>>,
    /// JSON text of [`Items`](crate::Items); `None` for all items of the servers.
    pub items: Option<Arc<str>>,
    /// The form of its list of tools; `None` for the operator's setting.
    pub mode: Option<ToolsMode>,
}

/// The principal, in the agent's organisation, that owns the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOwner {
    pub issuer: String,
    pub subject: String,
}

impl AgentServers {
    /// Returns whether a member of the organisation may use the agent.
    pub(crate) fn is_for(&self, principal: &Principal, role: Role) -> bool {
        let is_owner =
            *self.owner.issuer == *principal.issuer && *self.owner.subject == *principal.subject;
        is_owner || role >= Role::Admin
    }
}
