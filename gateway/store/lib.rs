//! The control plane's database, SQLite or PostgreSQL behind the same interface, and the vault that
//! encrypts credentials in it. Permissions are checked elsewhere. The path of an MCP request never
//! calls the store.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and servers")
)]

mod change;
mod config;
mod connection;
mod database;
mod error;
mod file;
mod gateways;
mod grants;
mod known_lists;
mod maintain;
mod postgres;
mod read;
mod schema;
mod sqlite;
mod usage;
mod value;
mod vault;

pub use change::{Change, PrincipalKey, Reservation, is_integration};
pub use config::{Config, Keys, StorePlace};
pub use database::Store;
pub use error::{MIN_KEY, StoreError, VaultError};
pub use gateways::GatewayMark;
pub use grants::{AccountRecord, GrantFilter, GrantRecord, Resealed};
pub use known_lists::{KnownLists, MAX_LISTS};
pub use maintain::{Inventory, Restored};
pub use read::{Follower, FoundRecords, Reader};
pub use usage::{
    CALL, DailyCalls, KEPT_DAYS, STATE, USAGE_BUCKETS, UsageCounts, UsageFilter, UsageGroup,
    UsageKey, UsageRow,
};
pub use value::{
    Agent, AssignmentRecord, HiddenToolRecord, IntegrationRecord, OrganisationRecords,
};
pub use vault::{Field, Secret, Vault, digest};

#[cfg(test)]
mod tests;
