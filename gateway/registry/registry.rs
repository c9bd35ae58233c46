//! The registry itself: what is known, how it is kept true, and who is told. Reading takes a lock
//! for some lines and never waits for the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lockgate_store::{Config, Store, StoreError, Vault};
use parking_lot::RwLock;
use tokio::sync::{Mutex, broadcast};
use url::Url;

use crate::error::InvalidField;
use crate::snapshot::OrganisationSnapshot;
use crate::state::OrganisationState;

/// How often the store is asked for changes by others, beside what it tells by itself.
const POLL: Duration = Duration::from_secs(1);
/// Changes that a slow reader may be behind; then it has to look at everything.
const CHANGES: usize = 1024;

/// Judges an address that a user gave before anything connects to it. What it says is shown to
/// them. Connections judge again, by what the name resolves to.
pub type UrlCheck = Box<dyn Fn(&Url) -> Result<(), InvalidField> + Send + Sync>;

/// What people have changed while the gateway runs.
pub struct Registry {
    pub(crate) store: Store,
    pub(crate) vault: Vault,
    pub(crate) check_url: UrlCheck,
    states: RwLock<HashMap<Arc<str>, Arc<OrganisationState>>>,
    shared_slugs: RwLock<BTreeSet<String>>,
    changes: broadcast::Sender<Arc<str>>,
    /// The last revision that was read. Held while reading, so that nothing older comes after.
    read_to: Mutex<i64>,
    /// Why the store cannot be used, while that is so.
    trouble: RwLock<Option<String>>,
}

/// An organisation that something is stored of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organisation {
    pub id: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub integrations: usize,
    pub agents: usize,
}

impl Registry {
    /// A registry that knows what is stored. Where the store cannot be reached now, it knows
    /// nothing yet, says why ([`Self::trouble`]), and learns it when the store is back.
    ///
    /// # Errors
    /// What will not change by itself: a database of others, a damaged one, a newer schema; keys
    /// that are none.
    pub async fn open(config: &Config, check_url: UrlCheck) -> Result<Arc<Self>, StoreError> {
        let registry = Arc::new(Self {
            store: Store::new(config.place.clone()),
            vault: Vault::new(&config.keys)?,
            check_url,
            states: RwLock::default(),
            shared_slugs: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES),
            read_to: Mutex::new(0),
            trouble: RwLock::new(None),
        });
        match registry.refresh().await {
            Err(error) if error.is_lasting() => Err(error),
            _ => Ok(registry),
        }
    }

    /// Learns of changes by other gateways within two seconds, until it is dropped. Never returns.
    pub async fn follow(&self) {
        let mut follower = self.store.follow();
        loop {
            follower.wait(POLL).await;
            // Said in the log by `refresh`, once.
            let _ = self.refresh().await;
        }
    }

    /// What the data plane needs of an organisation, as of its last change. Never waits.
    #[must_use]
    pub fn snapshot(&self, organisation: &str) -> Arc<OrganisationSnapshot> {
        let known = self.states.read().get(organisation).cloned();
        match known {
            Some(state) => Arc::clone(&state.snapshot),
            None => Arc::new(OrganisationSnapshot {
                organisation: organisation.into(),
                ..OrganisationSnapshot::default()
            }),
        }
    }

    /// Names of the organisations that change, from now on. A reader that lags reads all
    /// [`Self::organisations`] again.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Arc<str>> {
        self.changes.subscribe()
    }

    /// Every organisation that something is stored of, by name.
    #[must_use]
    pub fn organisations(&self) -> Vec<Organisation> {
        let mut organisations = Vec::new();
        for (id, state) in &*self.states.read() {
            organisations.push(Organisation {
                id: id.to_string(),
                created_at: state.created_at,
                integrations: state.integrations.len(),
                agents: state.agents.len(),
            });
        }
        organisations.sort_by(|a, b| a.id.cmp(&b.id));
        organisations
    }

    /// The slugs of the operator's servers, which no new integration gets.
    pub fn set_shared_slugs(&self, slugs: impl IntoIterator<Item = String>) {
        *self.shared_slugs.write() = slugs.into_iter().collect();
    }

    pub(crate) fn shared_slugs(&self) -> BTreeSet<String> {
        self.shared_slugs.read().clone()
    }

    /// Why changes are refused now, in words for the operator; none when they are taken.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.read().clone()
    }

    /// Whether credentials can be stored.
    #[must_use]
    pub fn can_store_credentials(&self) -> bool {
        self.vault.can_seal()
    }

    pub(crate) fn state(&self, organisation: &str) -> Arc<OrganisationState> {
        self.states.read().get(organisation).cloned().unwrap_or_default()
    }

    /// Reads what has changed since the last time, and tells who waits for it.
    ///
    /// # Errors
    /// [`StoreError`]; what is known stays.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut read_to = self.read_to.lock().await;
        let changed = match self.store.load_changed(*read_to).await {
            Ok(changed) => changed,
            Err(error) => {
                self.note_trouble(Some(&error));
                return Err(error);
            }
        };
        self.note_trouble(None);
        for records in changed {
            let organisation: Arc<str> = records.id.as_str().into();
            let state = Arc::new(OrganisationState::new(&records, &self.vault));
            self.states.write().insert(Arc::clone(&organisation), state);
            *read_to = records.revision.max(*read_to);
            // Nobody listens in tests and in tools.
            let _ = self.changes.send(organisation);
        }
        Ok(())
    }

    /// Says in the log when the store goes and comes.
    pub(crate) fn note_trouble(&self, error: Option<&StoreError>) {
        let now = error.map(ToString::to_string);
        let mut trouble = self.trouble.write();
        match (&*trouble, &now) {
            (None, Some(reason)) => {
                tracing::error!(reason, "the store cannot be used: what is known goes on");
            }
            (Some(_), None) => tracing::info!("the store can be used again"),
            _ => {}
        }
        *trouble = now;
    }

    /// Ends the connections to the store.
    pub async fn close(&self) {
        self.store.close().await;
    }
}
