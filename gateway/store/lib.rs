//! The control plane's database, SQLite or PostgreSQL behind the same interface, and the vault that
//! encrypts credentials in it. Permissions are checked elsewhere. The path of an MCP request never
//! calls the store.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and servers")
)]

mod change;
mod clock;
mod config;
mod connection;
mod daily_calls;
mod database;
mod error;
mod file;
mod folder;
mod follow;
mod gateways;
mod grants;
mod known_lists;
mod maintain;
mod pool;
mod postgres;
mod read;
mod record;
mod schema;
mod sqlite;
mod usage;
mod value;
mod vault;

pub use change::{Change, Owner, Reservation};
pub use config::{Config, Keys, StorePlace};
pub use daily_calls::{DailyCalls, KEPT_DAYS};
pub use database::Store;
pub use error::StoreError;
pub use follow::Follower;
pub use gateways::GatewayMark;
pub use grants::{AccountRecord, GrantFilter, GrantRecord, Resealed};
pub use known_lists::{KnownLists, MAX_LISTS};
pub use maintain::{Inventory, Restored};
pub use read::{FoundRecords, Reader};
pub use record::{
    AgentRecord, AssignmentRecord, HiddenToolRecord, IntegrationRecord, OrganisationRecords,
};
pub use usage::{
    CALL, STATE, USAGE_BUCKETS, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow,
};
pub use vault::{Field, MIN_KEY, Secret, Vault, VaultError, digest};

#[cfg(test)]
mod tests;
