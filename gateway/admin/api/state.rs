//! The state that all requests of the API share, and the operations that the API requires.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use lockgate_accounts::Accounts;
use lockgate_admission::ConcurrencyLimit;
use lockgate_authn::key::Key;
use lockgate_proxy::quota::{QuotaPermit, Quotas};
use lockgate_proxy::{Gateway, PinChange};
use lockgate_registry::Registry;
use lockgate_upstream::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::journal::Journal;
use crate::config::ApiConfig;
use crate::console::sessions::Sessions;

lockgate_text::words! {
    /// A change of the connection to a server.
    pub enum Switch {
        Connect = "connected",
        Disconnect = "disconnected",
        /// Ends the connection and connects again.
        Reconnect = "reconnected",
    }
}

/// The reason why the keys file or the lock file was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum FileChangeError {
    /// The configuration has no such file.
    NoFile,
    /// The file, or the organisation's share of it, is full.
    Full,
    /// There is no such key.
    Unknown,
    /// With a message for the log.
    Unwritable(String),
}

/// A key of the configuration.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = Setting))]
pub struct EffectiveSetting {
    /// Such as `servers.time.timeout`.
    pub key: String,
    /// Null if not set; a secret is shown as its reference, or not at all.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[cfg_attr(test, schema(value_type = Option<Value>))]
    pub value: Value,
    /// The behaviour if not set, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// The file with line and column, the variable or the flag that sets it; absent for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// The operations that the API requires of the rest of the program.
pub trait Operations: Send + Sync + 'static {
    /// Returns the API's current configuration, with the holders of roles.
    fn settings(&self) -> Arc<ApiConfig>;

    /// Returns the configuration with the origin of each value; secrets are references. Reads
    /// files.
    ///
    /// # Errors
    /// Returns the errors of the configuration as text, one per line.
    fn effective_settings(&self) -> Result<Vec<EffectiveSetting>, String>;

    /// Returns the API keys in force.
    fn keys(&self) -> Arc<[Key]>;

    /// Returns whether a keys file is configured.
    fn has_keys_file(&self) -> bool;

    /// Adds a key to the keys file, or revokes the known key if it has the time of its revocation.
    /// The file is changed atomically, after other changes, and the gateway starts to reload it at
    /// once. A dry run only checks whether the file can be changed.
    ///
    /// # Errors
    /// Returns a [`FileChangeError`] if the file was not changed.
    fn change_keys(&self, key: &Key, dry_run: bool) -> Result<(), FileChangeError>;

    /// Writes approved or rejected tools to the lock file atomically. The gateway applies the file
    /// soon after.
    ///
    /// # Errors
    /// Returns a [`FileChangeError`] if the file was not changed.
    fn decide_pins(&self, decided: &[PinChange], is_approved: bool) -> Result<(), FileChangeError>;

    /// Returns the file that the audit trail is written to, if any.
    fn audit_file(&self) -> Option<PathBuf>;

    /// Verifies the whole trail, on the calling thread.
    ///
    /// # Errors
    /// The cause why the trail cannot be read.
    fn verify_audit(&self) -> Result<AuditReport, String>;

    /// Returns the accounts at servers.
    fn accounts(&self) -> Arc<Accounts>;

    /// Returns the registry; `None` if nothing can be changed while the gateway runs.
    fn registry(&self) -> Option<Arc<Registry>>;

    /// Applies the stored state of an organisation. Completes when requests see it, or after some
    /// seconds.
    fn serve_changes<'a>(&'a self, organisation: &'a str) -> BoxFuture<'a, ()>;

    /// Tests a server of an organisation: connects, performs the handshake, reads its lists, and
    /// disconnects.
    fn probe(&self, candidate: Candidate) -> BoxFuture<'static, Result<Offered, ProbeFailure>>;

    /// Fetches a JSON document from an address that the operator configured, with limits on size
    /// and time, and without redirects.
    fn fetch_document(&self, url: Url) -> BoxFuture<'static, Result<Value, String>>;

    /// Returns whether a slug is of a configured server, which can be connected and disconnected.
    fn can_switch(&self, slug: &str) -> bool;

    /// Connects or disconnects a configured server, or an integration of an organisation. Returns
    /// `false` if it has no connection: it is unknown, or an integration that is disabled or whose
    /// credentials cannot be used.
    fn switch(&self, organisation: Option<&str>, slug: &str, to: Switch) -> bool;
}

/// The result of verifying the audit trail.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct AuditReport {
    pub intact: bool,
    pub records: u64,
    /// The first mistake.
    pub first: Option<String>,
}

pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) operations: Arc<dyn Operations>,
    /// Open console sessions.
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) journal: Arc<Journal>,
    /// Limit on concurrent tests of servers.
    pub(crate) probes: Places,
    /// Limit on concurrent searches of the audit trail, which may read files for some seconds.
    pub(crate) searches: Places,
    /// A separate limit for operators, so that organisations cannot block their searches.
    pub(crate) operator_searches: Places,
    /// Limit on concurrent reads of usage, which sum many rows of the store.
    pub(crate) usage_reads: Places,
    /// Limit on changes of the keys file. Organisations take turns.
    pub(crate) key_turns: Arc<ConcurrencyLimit>,
}

pub(crate) type Shared = State<Arc<ApiState>>;

// Tests of servers: the input for the rest of the program, and the result.

/// Limit on concurrent tests of an organisation.
pub(crate) const MAX_PROBES: usize = 4;

/// A server to test. Contains secrets, so it has no `Debug`.
pub struct Candidate {
    pub organisation: Arc<str>,
    pub slug: String,
    pub url: Url,
    /// The address is from the operator's catalogue.
    pub is_predefined: bool,
    pub headers: BTreeMap<String, String>,
    /// Members have their own credentials, so that the server may refuse this test.
    pub is_of_members: bool,
}

/// The number of items that a server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Offered {
    pub tools: usize,
    pub resources: usize,
    pub prompts: usize,
}

lockgate_text::words! {
    /// The stages of connecting to a server.
    #[derive(Serialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum ProbeStage {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        Http = "http",
        Auth = "auth",
        Handshake = "handshake",
        List = "list",
    }
}

/// Replaces an address in messages.
const HIDDEN: &str = "the server's host";

/// The reason why a server does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    pub stage: ProbeStage,
    /// The message, without secrets.
    pub words: String,
}

impl ProbeFailure {
    /// Removes a host and its port, which the caller may not see, from the message.
    pub(crate) fn without(self, host: &str, port: Option<u16>) -> Self {
        let mut words = self.words;
        if let Some(port) = port {
            words = words.replace(&format!("{host}:{port}"), HIDDEN);
        }
        Self { words: words.replace(host, HIDDEN), ..self }
    }
}

impl ProbeStage {
    /// Returns the kind of failure, for programs.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Dns | Self::Connect | Self::Tls => "connection",
            Self::Auth => "authentication",
            Self::Http | Self::Handshake | Self::List => "validation",
        }
    }
}

// A concurrency limit per organisation and in total, for long operations. Never queues.

pub(crate) struct Places {
    of_each: usize,
    organisations: Arc<Quotas>,
    all: Arc<Semaphore>,
}

/// A permit of an organisation and one of all, released when dropped.
pub(crate) type OrganisationPermit = (QuotaPermit, OwnedSemaphorePermit);

impl Places {
    pub(crate) fn new(of_each: usize, of_all: usize) -> Self {
        Self { of_each, organisations: Arc::default(), all: Arc::new(Semaphore::new(of_all)) }
    }

    pub(crate) fn enter(&self, organisation: &str) -> Option<OrganisationPermit> {
        let own = self.organisations.take_for_organisation(organisation, self.of_each)?;
        Some((own, Arc::clone(&self.all).try_acquire_owned().ok()?))
    }
}

#[cfg(test)]
mod tests;
