//! The registry itself: what is known, how it is kept true, and who is told. Reading takes a lock
//! for some lines and never waits for the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_store::{Config, Found, Reader, Store, StoreError, Vault};
use parking_lot::RwLock;
use tokio::sync::{Mutex, broadcast};
use url::Url;

use crate::catalogue::Catalogue;
use crate::error::InvalidField;
use crate::organisation::Organisation;
use crate::snapshot::OrganisationSnapshot;
use crate::state::OrganisationState;
use crate::waiting_lists::WaitingLists;

/// How often the store is asked for changes by others, beside what it tells by itself.
const POLL: Duration = Duration::from_secs(1);
/// Changes are made one after the other; the second is on its way meanwhile.
const TURNS: Bounds = Bounds { running: 2, waiting: 128 };
/// How often answers that are kept no longer are taken away.
const PURGE: Duration = Duration::from_secs(60);
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
    /// The operator's, as of its last loading.
    catalogue: RwLock<Arc<Catalogue>>,
    changes: broadcast::Sender<Arc<str>>,
    /// Held while reading, so that nothing older comes after.
    reader: Mutex<Reader>,
    trouble: RwLock<Trouble>,
    /// The store was read, now or earlier.
    is_loaded: AtomicBool,
    /// Organisations take turns at changes.
    pub(crate) turns: Arc<ConcurrencyLimit>,
    pub(crate) waiting_lists: WaitingLists,
}

/// Why the store cannot be used, while that is so: what can be read need not be writable.
#[derive(Default)]
struct Trouble {
    /// Until something is read.
    reading: Option<String>,
    /// Until something is written.
    writing: Option<String>,
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
            vault: Vault::open_configured(config)?,
            check_url,
            states: RwLock::default(),
            shared_slugs: RwLock::default(),
            catalogue: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES),
            reader: Mutex::default(),
            trouble: RwLock::default(),
            is_loaded: AtomicBool::new(false),
            turns: ConcurrencyLimit::new(TURNS, Charge::Turns, None),
            waiting_lists: WaitingLists::default(),
        });
        match registry.refresh().await {
            Err(error) if error.is_lasting() => return Err(error),
            Err(_) => return Ok(registry),
            Ok(()) => {}
        }
        match registry.store.prepare().await {
            Err(error) if error.is_lasting() => return Err(error),
            Err(error) => registry.note_failure(&error),
            Ok(()) => {}
        }
        Ok(registry)
    }

    /// Learns of changes by other gateways within two seconds, and writes what is to be known after
    /// a restart, until it is dropped. Never returns.
    pub async fn follow(&self) {
        tokio::join!(self.follow_changes(), self.waiting_lists.write_all(&self.store));
    }

    async fn follow_changes(&self) {
        let mut follower = self.store.follow();
        let mut purged = Instant::now();
        loop {
            follower.wait(POLL).await;
            // Said in the log by `refresh`, once.
            let _ = self.refresh().await;
            if purged.elapsed() >= PURGE {
                purged = Instant::now();
                if let Err(error) = self.store.purge_outcomes().await {
                    tracing::debug!(%error, "old answers are not taken away");
                }
            }
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

    /// Every organisation that is stored, by name.
    #[must_use]
    pub fn organisations(&self) -> Vec<Organisation> {
        let mut organisations = Vec::new();
        for (id, state) in &*self.states.read() {
            organisations.push(state.describe(id));
        }
        organisations.sort_by(|a, b| a.id.cmp(&b.id));
        organisations
    }

    pub(crate) fn find_organisation(&self, id: &str) -> Option<Organisation> {
        let states = self.states.read();
        states.get(id).map(|state| state.describe(id))
    }

    /// The slugs of the operator's servers, which no new integration gets.
    pub fn set_shared_slugs(&self, slugs: impl IntoIterator<Item = String>) {
        *self.shared_slugs.write() = slugs.into_iter().collect();
    }

    /// The catalogue that is in force.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.read())
    }

    /// Puts a catalogue into force; integrations that were made from it follow.
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        let catalogue = Arc::new(catalogue);
        {
            let mut current = self.catalogue.write();
            if *current == catalogue {
                return;
            }
            *current = Arc::clone(&catalogue);
        }
        let mut changed = Vec::new();
        for (organisation, state) in &mut *self.states.write() {
            let Some(records) = &state.records else { continue };
            let new = OrganisationState::new(records, &self.vault, &catalogue, Some(state));
            if new != **state {
                *state = Arc::new(new);
                changed.push(Arc::clone(organisation));
            }
        }
        for organisation in changed {
            tracing::info!(%organisation, "integrations follow another catalogue");
            let _ = self.changes.send(organisation);
        }
    }

    pub(crate) fn shared_slugs(&self) -> BTreeSet<String> {
        self.shared_slugs.read().clone()
    }

    /// Why changes are refused now, in words for the operator; none when they are taken.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.read();
        match &trouble.reading {
            Some(reason) => Some(reason.clone()),
            None => trouble.writing.clone(),
        }
    }

    /// Returns whether the store has been read since the start. Until then nothing that is stored
    /// is known.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Whether credentials can be stored.
    #[must_use]
    pub fn can_store_credentials(&self) -> bool {
        self.vault.can_seal()
    }

    pub(crate) fn state(&self, organisation: &str) -> Arc<OrganisationState> {
        match self.states.read().get(organisation) {
            Some(state) => Arc::clone(state),
            None => Arc::default(),
        }
    }

    /// Reads what has changed since the last time, and tells who waits for it.
    ///
    /// # Errors
    /// [`StoreError`]; what is known stays.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut reader = self.reader.lock().await;
        let read = self.store.read(&mut reader, |found| self.take(found)).await;
        match &read {
            // The next look finds it.
            Err(StoreError::Busy(_)) => {}
            Err(error) => note(&mut self.trouble.write().reading, Some(error), "read"),
            Ok(()) => {
                note(&mut self.trouble.write().reading, None, "read");
                self.is_loaded.store(true, Ordering::Release);
            }
        }
        read
    }

    /// Goes by what was found in the store.
    fn take(&self, found: Found) {
        match found {
            Found::Organisation(records) => {
                let known = self.states.read().get(records.id.as_str()).cloned();
                // Held until the state is there, so that another catalogue comes before or after.
                let catalogue = self.catalogue.read();
                let known = known.as_deref();
                let state = OrganisationState::new(&records, &self.vault, &catalogue, known);
                // Everything was read again, and this is as it was.
                if known == Some(&state) {
                    return;
                }
                let organisation: Arc<str> = records.id.as_str().into();
                self.states.write().insert(Arc::clone(&organisation), Arc::new(state));
                // Nobody listens in tests and in tools.
                let _ = self.changes.send(organisation);
            }
            Found::All(ids) => self.forget_others(&ids),
        }
    }

    /// Forgets the organisations that are gone.
    fn forget_others(&self, ids: &HashSet<String>) {
        let mut gone = Vec::new();
        self.states.write().retain(|id, _| {
            let is_there = ids.contains(&**id);
            if !is_there {
                gone.push(Arc::clone(id));
            }
            is_there
        });
        for organisation in gone {
            let _ = self.changes.send(organisation);
        }
    }

    /// Keeps why changes are refused, where it is not for this change alone.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        let mut trouble = self.trouble.write();
        if matches!(error, StoreError::Unavailable(_)) {
            note(&mut trouble.reading, Some(error), "reached");
        } else if error.is_read_only() || matches!(error, StoreError::Full) || error.is_lasting() {
            note(&mut trouble.writing, Some(error), "written");
        }
    }

    /// What the store answered; why it failed is kept.
    pub(crate) fn noting<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &answer {
            self.note_failure(error);
        }
        answer
    }

    /// Something was written.
    pub(crate) fn note_written(&self) {
        note(&mut self.trouble.write().writing, None, "written");
    }

    /// Ends the connections to the store.
    pub async fn close(&self) {
        self.waiting_lists.write_last(&self.store).await;
        self.store.close().await;
    }
}

/// Says in the log when something goes and comes.
fn note(trouble: &mut Option<String>, error: Option<&StoreError>, what: &str) {
    let now = error.map(ToString::to_string);
    match (&*trouble, &now) {
        (None, Some(reason)) => {
            tracing::error!(reason, "the store cannot be {what}: what is known goes on");
        }
        (Some(_), None) => tracing::info!("the store can be {what} again"),
        _ => {}
    }
    *trouble = now;
}
