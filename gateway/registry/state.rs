//! All stored data of each organisation, in memory, so that reads never wait for the store.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_store::{OrganisationRecords, Vault};

use crate::agent::Agent;
use crate::catalogue::Catalogue;
use crate::integration::Integration;
use crate::organisation::Organisation;
use crate::snapshot::{HiddenTools, OrganisationSnapshot};

/// An organisation as of a revision.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OrganisationState {
    pub(crate) created_at: i64,
    pub(crate) integrations: Vec<Integration>,
    pub(crate) agents: Vec<Agent>,
    /// Ids of integrations and slugs of the operator's servers by agent id, in the order of
    /// assignment.
    pub(crate) assigned: HashMap<String, Vec<String>>,
    /// Hidden tools by agent id.
    pub(crate) hidden: HashMap<String, HiddenTools>,
    pub(crate) snapshot: Arc<OrganisationSnapshot>,
    /// Kept if the catalogue determines parts of the state, to rebuild it when the catalogue
    /// changes.
    pub(crate) records: Option<Arc<OrganisationRecords>>,
}

impl OrganisationState {
    /// Builds the state. Credentials that were decrypted in `before` stay so.
    pub(crate) fn new(
        records: &OrganisationRecords,
        vault: &Vault,
        catalogue: &Catalogue,
        before: Option<&Self>,
    ) -> Self {
        let mut assigned: HashMap<String, Vec<String>> = HashMap::new();
        for assignment in &records.assignments {
            let list = assigned.entry(assignment.agent.clone()).or_default();
            list.push(assignment.server.clone());
        }
        let mut hidden: HashMap<String, HiddenTools> = HashMap::new();
        for record in &records.hidden_tools {
            let servers = hidden.entry(record.agent.clone()).or_default();
            servers.entry(record.server.clone()).or_default().insert(record.tool.clone());
        }
        let integrations: Vec<_> = records
            .integrations
            .iter()
            .map(|record| Integration::from_record(record, catalogue))
            .collect();
        let agents: Vec<_> = records.agents.iter().map(Agent::from_record).collect();
        let before = before.map(|before| &*before.snapshot);
        let snapshot =
            OrganisationSnapshot::new(records, (&assigned, &hidden), vault, catalogue, before);
        let follows = records.integrations.iter().any(|record| record.catalogue.is_some());
        Self {
            created_at: records.created_at,
            integrations,
            agents,
            assigned,
            hidden,
            snapshot: Arc::new(snapshot),
            records: if follows { Some(Arc::new(records.clone())) } else { None },
        }
    }

    /// Describes the organisation for operators.
    pub(crate) fn describe(&self, id: &str) -> Organisation {
        Organisation {
            id: id.to_owned(),
            created_at: self.created_at,
            integrations: self.integrations.len(),
            agents: self.agents.len(),
        }
    }

    pub(crate) fn find_integration(&self, id: &str) -> Option<&Integration> {
        self.integrations.iter().find(|integration| integration.id == id)
    }

    pub(crate) fn find_agent(&self, id: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    pub(crate) fn list_assigned(&self, agent: &str) -> &[String] {
        self.assigned.get(agent).map_or(&[], Vec::as_slice)
    }
}
