//! The control plane's state: organisations, the integrations that their administrators add, agents
//! and their assignments. Validates changes, stores them and publishes snapshots. Contains no HTTP,
//! connects to no server, and is never on the path of a request.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and servers")
)]

mod actor;
mod agent;
mod agents;
mod assignments;
mod auth;
mod catalogue;
mod change;
mod draft;
mod error;
mod field;
mod integration;
mod integrations;
mod list;
mod organisation;
mod organisations;
mod registry;
mod rotate;
mod set;
mod snapshot;
mod state;
mod usage;
mod waiting_lists;
mod waiting_usage;

pub use actor::{Actor, ChangeOptions, Changed, PrincipalKey, Role, Warning};
pub use agent::{Agent, AgentPatch, NewAgent};
pub use assignments::{AgentServer, AgentServerChange, Assignment};
pub use auth::Auth;
pub use catalogue::{Catalogue, CatalogueEntry};
pub use error::{InvalidField, RegistryError};
pub use integration::{
    Integration, IntegrationKind, IntegrationPatch, NewIntegration, NewPredefined,
};
pub use list::{AgentQuery, IntegrationQuery, MAX_PAGE, Page, Sort};
pub use organisation::Organisation;
pub use registry::{Registry, UrlCheck};
pub use rotate::Rotation;
pub use set::{IntegrationSet, WantedIntegration, WantedSource};
pub use snapshot::{
    AgentSnapshot, Credential, CredentialState, HiddenTools, IntegrationSnapshot,
    OrganisationSnapshot,
};
pub use usage::UsageStanding;

pub use lockgate_store::{
    Config, DailyCalls, KEPT_DAYS, Keys, KnownLists, STATE, Secret, StoreError, StorePlace,
    USAGE_BUCKETS, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow, VaultError,
};

#[cfg(test)]
mod tests;
