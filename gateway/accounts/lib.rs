//! Accounts at servers: OAuth 2.1 with the gateway as the client. Finds authorization servers,
//! registers, obtains and refreshes tokens, and keeps each caller's grant apart from all others.
//! Tokens, codes, verifiers and client secrets appear in no error and no log line.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and sockets")
)]

mod account;
mod accounts;
mod authorization;
mod challenge;
mod config;
mod connecting;
mod discovery;
mod error;
mod fetch;
mod grant;
mod holder;
mod links;
mod random;
mod records;
mod registration;
mod server;
mod token_endpoint;
mod workload;

pub use account::Account;
pub use accounts::{Accounts, PreparedAccounts};
pub use config::{
    Authentication, ClientKey, ClientKeyError, Config, Listing, Method, PreRegistered, ServerConfig,
};
pub use connecting::{CallbackQuery, Consent, Started};
pub use error::AccountError;
pub use grant::{AccountState, Connection, ConnectionChanges};
pub use holder::{Holder, HolderKey, SubjectToken};
pub use links::Link;
pub use lockgate_store::GrantFilter;
pub use records::{AccountEvent, AccountObserver, Storage};
