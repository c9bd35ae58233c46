//! The control plane's state: organisations, the integrations that their administrators add, agents
//! and their assignments. Validates changes, stores them and publishes snapshots. Connects to no
//! server, and is never on the path of a request.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and servers")
)]

mod actor;
mod agents;
mod change;
mod draft;
mod error;
mod field;
mod integrations;
mod list;
mod objects;
mod registry;
mod set;
mod state;
mod waiting;

pub use actor::{Actor, ChangeOptions, Changed, Warning};
pub use agents::{AgentServer, AgentServerChange, Assignment};
pub use error::{InvalidField, RegistryError};
pub use objects::{
    AgentPatch, Auth, Catalogue, CatalogueEntry, Integration, IntegrationKind, IntegrationPatch,
    NewIntegration, Origin,
};
pub use registry::{Registry, UrlCheck, UsageStanding};
pub use set::IntegrationSet;
pub use state::{
    AgentSnapshot, Credential, CredentialState, HiddenTools, IntegrationSnapshot, Organisation,
    OrganisationSnapshot,
};

pub use lockgate_admission::Role;
pub use lockgate_store::{
    Agent, Config, DailyCalls, KEPT_DAYS, Keys, KnownLists, PrincipalKey, Resealed, STATE, Secret,
    StoreError, StorePlace, USAGE_BUCKETS, UsageCounts, UsageFilter, UsageGroup, UsageKey,
    UsageRow, VaultError,
};

#[cfg(test)]
mod tests;
