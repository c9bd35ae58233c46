//! What all requests of the API share, and what the API asks of the rest of the program.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use lockgate_admission::ConcurrencyLimit;
use lockgate_authn::key::Key;
use lockgate_policy::pin::Pin;
use lockgate_proxy::Gateway;
use lockgate_registry::Registry;
use lockgate_upstream::BoxFuture;
use serde_json::Value;

use super::journal::Journal;
use super::places::Places;
use super::probe::{Candidate, Offered, ProbeFailure};
use crate::config::ApiConfig;
use crate::console::sessions::Sessions;

/// What is done with the connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Connect,
    Disconnect,
    /// Ends the connection and connects anew.
    Reconnect,
}

impl Switch {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connected",
            Self::Disconnect => "disconnected",
            Self::Reconnect => "reconnected",
        }
    }
}

/// A change of the file of API keys.
#[derive(Clone, Debug)]
pub enum KeyChange {
    Add(Key),
    /// Takes the key of this id out of force, at this time in Unix seconds.
    Revoke {
        id: String,
        at: u64,
    },
}

/// Why the file was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyChangeError {
    /// The configuration names none.
    NoFile,
    /// It has as many keys as it may have.
    Full,
    /// There is no such key.
    Unknown,
    /// In words for the log.
    Unwritable(String),
}

/// A tool that is approved as it is.
#[derive(Clone, Debug)]
pub struct ApprovedPin {
    /// As the lock file calls it.
    pub server: String,
    pub tool: String,
    pub pin: Pin,
    /// That the server belongs to; none of the operator's.
    pub organisation: Option<Arc<str>>,
}

/// Why nothing was approved.
#[derive(Debug, PartialEq, Eq)]
pub enum ApprovalError {
    /// There is no room for more.
    Full,
    /// In words for the log.
    Unwritable(String),
}

/// A key of the configuration, and what it says.
#[derive(Clone, Debug)]
pub struct EffectiveSetting {
    /// Such as `servers.time.timeout`.
    pub key: String,
    /// Null where nothing is set; of a secret the reference.
    pub value: Value,
    /// What holds where nothing is set, in words.
    pub otherwise: Option<String>,
    /// Where it is written; none of a default.
    pub origin: Option<String>,
}

/// What the API asks of the rest of the program.
pub trait Operations: Send + Sync + 'static {
    /// Who may do what, as the configuration has it now.
    fn settings(&self) -> Arc<ApiConfig>;

    /// The configuration with the origin of each value; secrets as references. Reads files.
    ///
    /// # Errors
    /// Its mistakes, in words, a line each.
    fn effective_settings(&self) -> Result<Vec<EffectiveSetting>, String>;

    /// The API keys that the gateway goes by.
    fn keys(&self) -> Arc<[Key]>;

    /// Finds out whether the file of keys could be changed so, and leaves it as it is.
    ///
    /// # Errors
    /// [`KeyChangeError`].
    fn rehearse_key_change(&self, change: &KeyChange) -> Result<(), KeyChangeError>;

    /// Changes the file of keys, as a whole or not at all; waits for others who do. The gateway
    /// begins to read it at once.
    ///
    /// # Errors
    /// [`KeyChangeError`].
    fn change_keys(&self, change: &KeyChange) -> Result<(), KeyChangeError>;

    /// Writes tools into the lock file, as a whole or not at all. The gateway goes by it soon
    /// after.
    ///
    /// # Errors
    /// [`ApprovalError`].
    fn approve_pins(&self, approved: &[ApprovedPin]) -> Result<(), ApprovalError>;

    /// The file that the audit trail is written to, if it is one.
    fn audit_file(&self) -> Option<PathBuf>;

    /// What people change while the gateway runs; none where nobody can.
    fn registry(&self) -> Option<Arc<Registry>>;

    /// Has the gateway serve an organisation as it is stored now: done when requests see it, or
    /// after some seconds.
    fn serve_changes<'a>(&'a self, organisation: &'a str) -> BoxFuture<'a, ()>;

    /// Connects or disconnects an integration of an organisation, by its slug. `false` where it has
    /// no connection: it is unknown, disabled, or its credentials do not open.
    fn switch_integration(&self, organisation: &str, slug: &str, to: Switch) -> bool;

    /// Tries a server of an organisation: connects, shakes hands, reads its lists, and leaves.
    fn probe(&self, candidate: Candidate) -> BoxFuture<'static, Result<Offered, ProbeFailure>>;

    /// Whether it is a server of the configuration, which can be connected and disconnected.
    fn can_switch(&self, slug: &str) -> bool;

    /// Connects or disconnects a server of the configuration. `false` where there is no such
    /// server.
    fn switch(&self, slug: &str, to: Switch) -> bool;
}

/// What all requests of the API share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) operations: Arc<dyn Operations>,
    pub(crate) document: Document,
    /// Who is signed in to the console.
    pub(crate) sessions: Arc<Sessions>,
    /// What has happened of late.
    pub(crate) journal: Arc<Journal>,
    /// For servers that are tried.
    pub(crate) probes: Arc<Places>,
    /// For searches of the audit trail: each may read for some seconds.
    pub(crate) searches: Arc<Places>,
    /// The same of operators, so that no organisation keeps them from it.
    pub(crate) operator_searches: Arc<Places>,
    /// Organisations take turns at changing the file of keys.
    pub(crate) key_turns: Arc<ConcurrencyLimit>,
}

/// What the API says of itself, written once.
pub(crate) struct Document {
    /// As OpenAPI.
    pub(crate) text: String,
    /// As a page for people.
    pub(crate) page: String,
}

pub(crate) type Shared = State<Arc<ApiState>>;
