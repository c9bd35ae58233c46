//! The stored side of accounts: grants and the records of connecting, sealed in the database, or in
//! memory alone where there is none. Also passes events to their observer.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use lockgate_store::{AccountRecord, GrantRecord, Secret, Store, StoreError, Vault, VaultError};
use lockgate_text::date::{now_ms, to_ms};
use lockgate_text::json;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, broadcast};
use url::Url;

use crate::error::{AccountError, Result};
use crate::holder::Holder;
use crate::random::digest;

/// Maximum number of records in memory.
const MAX_IN_MEMORY: usize = 10_000;
/// Changes that may wait for a receiver.
pub(crate) const MAX_CHANGES: usize = 256;
/// Maximum number of concurrent revocations; others wait.
pub(crate) const MAX_REVOCATIONS: usize = 16;

/// The database of grants, and the vault that seals them.
#[derive(Clone)]
pub struct Storage {
    pub store: Arc<Store>,
    pub vault: Arc<Vault>,
}

/// A change of an account, for the audit trail.
pub struct AccountEvent<'a> {
    /// Such as `refresh account`.
    pub action: &'static str,
    pub server: &'a str,
    pub holder: &'a Holder,
    pub scopes: &'a [String],
    pub failure: Option<&'a AccountError>,
}

/// Receives news of accounts.
pub trait AccountObserver: Send + Sync + 'static {
    /// A holder has connected an account at a server, possibly another than before, at any gateway.
    fn connected(&self, server: &str, holder: &Holder);

    /// A holder's grant has ended: its calls, streams and sessions end too.
    fn ended(&self, server: &str, holder: &Holder);

    /// An account was changed without a request for it.
    fn record(&self, event: &AccountEvent<'_>);

    /// Stored tokens cannot be decrypted.
    fn unopened(&self, words: &str);
}

pub(crate) struct Records {
    pub(crate) storage: Option<Storage>,
    memory: Mutex<HashMap<String, InMemory>>,
    pub(crate) observer: OnceLock<Weak<dyn AccountObserver>>,
    /// The gateway's address for browsers.
    pub(crate) public_url: Mutex<Option<Url>>,
    /// Changes of grants, without their tokens.
    pub(crate) changes: broadcast::Sender<GrantRecord>,
    /// Slots for revocations. Deletion of an organisation ends many grants at once.
    pub(crate) revocations: Semaphore,
}

struct InMemory {
    owner: String,
    content: Secret,
    expires_at: i64,
}

/// The name of a record, and the limits of its kind.
pub(crate) struct RecordPlace {
    id: String,
    owner: String,
}

impl RecordPlace {
    pub(crate) fn new(kind: &str, name: &str, owner: &str) -> Self {
        Self { id: digest(&[kind, name]), owner: digest(&[kind, owner]) }
    }
}

impl Records {
    pub(crate) fn new(storage: Option<Storage>) -> Arc<Self> {
        let memory = Mutex::default();
        let public_url = Mutex::default();
        let (changes, _) = broadcast::channel(MAX_CHANGES);
        let revocations = Semaphore::new(MAX_REVOCATIONS);
        let observer = OnceLock::new();
        Arc::new(Self { storage, memory, observer, public_url, changes, revocations })
    }

    pub(crate) fn public_url(&self) -> Result<Url> {
        let url = self.public_url.lock().clone();
        url.ok_or_else(|| AccountError::Setup("`http.public_url` is not set".into()))
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn AccountObserver>> {
        self.observer.get()?.upgrade()
    }

    /// Stores a record for a time. Of its owner's records, the newest `max` are kept.
    pub(crate) async fn keep<T: Serialize>(
        &self,
        RecordPlace { id, owner }: RecordPlace,
        content: &T,
        lifetime: Duration,
        max: usize,
    ) -> Result<()> {
        let expires_at = to_ms(SystemTime::now() + lifetime);
        let content = seal_text(content)?;
        if let Some(Storage { store, vault }) = &self.storage {
            let sealed = AccountRecord::seal(vault, (id, owner), &content, expires_at);
            let max = i64::try_from(max).unwrap_or(i64::MAX);
            return Ok(store.keep_account_record(&sealed.map_err(locked)?, max).await?);
        }
        let mut memory = self.memory.lock();
        let now = now_ms();
        memory.retain(|_, record| record.expires_at > now);
        let of_owner = memory.iter().filter(|(_, record)| record.owner == owner);
        let mut own: Vec<(i64, String)> =
            of_owner.map(|(id, record)| (record.expires_at, id.clone())).collect();
        own.sort_unstable();
        let surplus = (own.len() + 1).saturating_sub(max);
        for (_, oldest) in own.drain(..surplus) {
            memory.remove(&oldest);
        }
        if memory.len() >= MAX_IN_MEMORY {
            return Err(AccountError::Internal("too many accounts are being connected"));
        }
        memory.insert(id, InMemory { owner, content, expires_at });
        Ok(())
    }

    /// Returns a record that has not expired.
    pub(crate) async fn find<T: DeserializeOwned>(&self, place: &RecordPlace) -> Result<Option<T>> {
        let content = match &self.storage {
            Some(Storage { store, vault }) => {
                let found = store.find_account_record(&place.id).await?;
                let Some(found) = found else { return Ok(None) };
                found.open(vault).map_err(locked)?
            }
            None => match self.memory.lock().get(&place.id) {
                Some(record) if record.expires_at > now_ms() => record.content.clone(),
                _ => return Ok(None),
            },
        };
        Ok(json::from_str(content.expose()).ok())
    }

    /// Deletes a record. Returns `false` if it is gone already.
    pub(crate) async fn remove(&self, place: &RecordPlace) -> Result<bool> {
        match &self.storage {
            Some(storage) => Ok(storage.store.drop_account_record(&place.id).await?),
            None => Ok(self.memory.lock().remove(&place.id).is_some()),
        }
    }
}

/// Returns a secret with a value as JSON.
pub(crate) fn seal_text<T: Serialize>(content: &T) -> Result<Secret> {
    let text = serde_json::to_string(content);
    text.map(Secret::new).map_err(|_| AccountError::Internal("a record cannot be written"))
}

/// Logs the failure, and keeps the words for callers.
impl From<StoreError> for AccountError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store of accounts cannot be used");
        Self::Unreachable(error.describe_to_callers().into())
    }
}

pub(crate) fn locked(error: VaultError) -> AccountError {
    tracing::error!(%error, "a stored account cannot be sealed or opened");
    AccountError::Internal("the vault cannot seal or open an account")
}
