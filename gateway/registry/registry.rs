//! The registry: its in-memory state, how that state follows the store, and how changes are
//! published. Readers hold a lock for a few lines and never wait for the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_store::{
    Config, DailyCalls, FoundRecords, KEPT_DAYS, KnownLists, Reader, Store, StoreError,
    UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow, Vault,
};
use lockgate_text::date;
use parking_lot::RwLock;
use tokio::sync::{Mutex, broadcast};
use url::Url;

use crate::actor::Actor;
use crate::error::{InvalidField, Result};
use crate::objects::Catalogue;
use crate::state::{Organisation, OrganisationSnapshot, OrganisationState};
use crate::waiting::{WaitingLists, WaitingUsage};

/// Interval at which the store is polled for changes by other gateways, besides any notifications.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Changes run sequentially in the store. A second permit would compete for SQLite's lock, which is
/// not fair: a change could lose it to those of another organisation again and again.
const TURNS: Bounds = Bounds { running: 1, waiting: 128 };
/// Interval at which expired rows are deleted from the store.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Changes that a slow receiver may lag behind before it has to read all organisations again.
const MAX_BUFFERED_CHANGES: usize = 1024;
const SECONDS_PER_DAY: u64 = 86_400;

/// Checks an address from a user before anything connects to it. The error is shown to the user.
/// Each connection checks again, with the addresses that the name resolves to.
pub type UrlCheck = Box<dyn Fn(&Url) -> Result<(), InvalidField> + Send + Sync>;

/// Organisations, integrations and agents, which users change while the gateway runs.
pub struct Registry {
    pub(crate) store: Arc<Store>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) check_url: UrlCheck,
    states: RwLock<HashMap<Arc<str>, Arc<OrganisationState>>>,
    shared_slugs: RwLock<BTreeSet<String>>,
    /// The operator's catalogue, as of its last load.
    catalogue: RwLock<Arc<Catalogue>>,
    changes: broadcast::Sender<Arc<str>>,
    /// Locked during a read, so that reads are applied in order.
    reader: Mutex<Reader>,
    trouble: RwLock<Trouble>,
    is_loaded: AtomicBool,
    /// Organisations take turns at changes.
    pub(crate) turns: Arc<ConcurrencyLimit>,
    pub(crate) waiting_lists: WaitingLists,
    pub(crate) waiting_usage: WaitingUsage,
}

/// Why the store cannot be used at present. A store may be readable but not writable.
#[derive(Default)]
struct Trouble {
    /// Cleared by the next successful read.
    reading: Option<String>,
    /// Cleared by the next successful write.
    writing: Option<String>,
}

impl Registry {
    /// Opens the registry and reads the store. If the store is unreachable, the registry starts
    /// empty, reports it in [`Self::trouble`], and loads the records later.
    ///
    /// # Errors
    /// Failures that do not pass by themselves: a foreign or damaged database, a newer schema,
    /// invalid keys.
    pub async fn open(config: &Config, check_url: UrlCheck) -> Result<Arc<Self>, StoreError> {
        let registry = Arc::new(Self {
            store: Arc::new(Store::new(config.place.clone())),
            vault: Arc::new(Vault::open_configured(config)?),
            check_url,
            states: RwLock::default(),
            shared_slugs: RwLock::default(),
            catalogue: RwLock::default(),
            changes: broadcast::Sender::new(MAX_BUFFERED_CHANGES),
            reader: Mutex::default(),
            trouble: RwLock::default(),
            is_loaded: AtomicBool::new(false),
            turns: ConcurrencyLimit::new(TURNS, Charge::Turns, None),
            waiting_lists: WaitingLists::default(),
            waiting_usage: WaitingUsage::default(),
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

    /// Loads changes by other gateways within two seconds, and writes the lists that are kept for a
    /// restart, until the future is dropped. Never returns.
    pub async fn follow(&self) {
        tokio::join!(self.follow_changes(), self.waiting_lists.write_all(&self.store));
    }

    async fn follow_changes(&self) {
        let mut follower = self.store.follow();
        let mut purged = Instant::now();
        loop {
            follower.wait(POLL_INTERVAL).await;
            // `refresh` logs a failure, once.
            let _ = self.refresh().await;
            if purged.elapsed() >= PURGE_INTERVAL {
                purged = Instant::now();
                if let Err(error) = self.store.purge().await {
                    tracing::debug!(%error, "expired rows are not deleted");
                }
            }
        }
    }

    /// Returns the data plane's snapshot of an organisation, as of its last change. Never waits.
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

    /// Subscribes to the names of organisations that change from now on. A receiver that lags has
    /// to read all [`Self::organisations`] again.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Arc<str>> {
        self.changes.subscribe()
    }

    /// Returns every stored organisation, sorted by name.
    pub fn organisations(&self) -> Vec<Organisation> {
        let mut organisations: Vec<_> =
            self.states.read().iter().map(|(id, state)| state.describe(id)).collect();
        organisations.sort_by(|a, b| a.id.cmp(&b.id));
        organisations
    }

    pub(crate) fn find_organisation(&self, id: &str) -> Option<Organisation> {
        let states = self.states.read();
        states.get(id).map(|state| state.describe(id))
    }

    /// Sets the slugs of the operator's servers. No new integration gets any of them.
    pub fn set_shared_slugs(&self, slugs: impl IntoIterator<Item = String>) {
        *self.shared_slugs.write() = slugs.into_iter().collect();
    }

    /// Returns the catalogue in force.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.read())
    }

    /// Replaces the catalogue, and updates the integrations made from its entries.
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

    /// Returns why changes are refused at present, in words for the operator; `None` if accepted.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.read();
        trouble.reading.as_ref().or(trouble.writing.as_ref()).cloned()
    }

    /// Returns whether the last read of the store failed.
    pub(crate) fn is_away(&self) -> bool {
        self.trouble.read().reading.is_some()
    }

    /// Returns whether the store has been read since the start. Until then the registry is empty.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Returns the database and the vault, for the grants of users at servers.
    pub fn storage(&self) -> (Arc<Store>, Arc<Vault>) {
        (Arc::clone(&self.store), Arc::clone(&self.vault))
    }

    /// Returns whether credentials can be stored.
    pub fn can_store_credentials(&self) -> bool {
        self.vault.can_seal()
    }

    pub(crate) fn state(&self, organisation: &str) -> Arc<OrganisationState> {
        self.states.read().get(organisation).cloned().unwrap_or_default()
    }

    /// Reads the changes since the last read, and notifies subscribers.
    ///
    /// # Errors
    /// [`StoreError`]; the state in memory is kept.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut reader = self.reader.lock().await;
        let read = self.store.read(&mut reader, |found| self.take(found)).await;
        match &read {
            // The next poll retries.
            Err(StoreError::Busy(_)) => {}
            Err(error) => note(&mut self.trouble.write().reading, Some(error), "read"),
            Ok(()) => {
                note(&mut self.trouble.write().reading, None, "read");
                self.is_loaded.store(true, Ordering::Release);
            }
        }
        read
    }

    /// Applies a record that was read from the store.
    fn take(&self, found: FoundRecords) {
        match found {
            FoundRecords::Organisation(records) => {
                let known = self.states.read().get(records.id.as_str()).cloned();
                // Held until the insertion, so that `set_catalogue` runs wholly before or after it.
                let catalogue = self.catalogue.read();
                let known = known.as_deref();
                let state = OrganisationState::new(&records, &self.vault, &catalogue, known);
                // The whole store was read again, and this organisation is unchanged.
                if known == Some(&state) {
                    return;
                }
                let organisation: Arc<str> = records.id.as_str().into();
                self.states.write().insert(Arc::clone(&organisation), Arc::new(state));
                // Tests and command-line tools have no subscribers.
                let _ = self.changes.send(organisation);
            }
            FoundRecords::All(ids) => self.forget_others(&ids),
        }
    }

    /// Removes the organisations that the store no longer has.
    fn forget_others(&self, ids: &HashSet<String>) {
        let mut states = self.states.write();
        let gone: Vec<_> = states.extract_if(|id, _| !ids.contains(&**id)).collect();
        drop(states);
        for (organisation, _) in gone {
            let _ = self.changes.send(organisation);
        }
    }

    /// Records why changes are refused, unless the error concerns this change alone.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        let mut trouble = self.trouble.write();
        if matches!(error, StoreError::Unavailable(_)) {
            note(&mut trouble.reading, Some(error), "reached");
        } else if error.is_read_only() || matches!(error, StoreError::Full) || error.is_lasting() {
            note(&mut trouble.writing, Some(error), "written");
        }
    }

    /// Passes on the store's result; records the error if it failed.
    pub(crate) fn noting<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &answer {
            self.note_failure(error);
        }
        answer
    }

    pub(crate) fn note_written(&self) {
        note(&mut self.trouble.write().writing, None, "written");
    }

    /// Writes the waiting lists and closes the connections to the store.
    pub async fn close(&self) {
        self.waiting_lists.write_last(&self.store).await;
        self.store.close().await;
    }

    /// Queues the lists of an integration to be written. Returns at once.
    pub fn keep_lists(&self, lists: KnownLists) {
        self.waiting_lists.add(lists);
    }

    /// Moves waiting lists of an integration from its version `old` to `new`.
    pub fn carry_lists(&self, integration: &str, old: i64, new: i64) {
        self.waiting_lists.carry(integration, old, new);
    }

    /// Returns an integration's stored lists, if its version is unchanged and the store available.
    pub async fn find_lists(&self, organisation: &str, integration: &str) -> Option<KnownLists> {
        let found = self.store.find_lists(organisation, integration).await.inspect_err(|error| {
            tracing::warn!(integration, %error, "the stored lists cannot be read");
        });
        found.unwrap_or_default()
    }

    /// Adds to the stored counts.
    pub async fn add_calls(&self, counts: &[DailyCalls]) -> Result<(), StoreError> {
        self.store.add_calls(counts, today()).await
    }

    /// Returns the counts of an integration for the last `days` days, including today. Days without
    /// calls are omitted.
    pub async fn list_calls(
        &self,
        actor: &Actor,
        integration: &str,
        days: i64,
    ) -> Result<Vec<DailyCalls>> {
        self.integration(actor, integration)?;
        let after = today() - days.clamp(1, KEPT_DAYS);
        let of = (&*actor.organisation, integration);
        Ok(self.noting(self.store.list_calls(of, after).await)?)
    }

    /// Counts calls, denials and states that ended at `at`, and writes all counts that are not
    /// stored yet. A failed write is retried with the next counts. Times are seconds since 1970.
    pub async fn add_usage(&self, counts: &[(UsageKey, UsageCounts)], at: i64, now: i64) {
        let usage = &self.waiting_usage;
        usage.add(counts, at, now);
        let taken = usage.take();
        if taken.is_empty() {
            return;
        }
        let written = self.store.add_usage(&taken, now).await;
        match written {
            Ok(true) => usage.0.lock().written = Some(now),
            // There is no database yet, and no call to create it for.
            Ok(false) => usage.put_back(taken),
            // The counts may have been added, and losing them is better than counting them twice.
            Err(error @ StoreError::Unknown(_)) => {
                tracing::warn!(%error, "the usage of a few seconds may not be counted");
            }
            Err(error) => {
                tracing::debug!(%error, "usage is waiting for the store");
                usage.put_back(taken);
            }
        }
    }

    /// Returns the selected usage by group, from the store or, while there is none, from memory.
    /// The largest come first, or the earliest.
    pub async fn sum_usage(
        &self,
        group: UsageGroup,
        filter: &UsageFilter,
    ) -> Result<Vec<UsageRow>> {
        let rows = self.noting(self.store.sum_usage(group, filter).await)?;
        Ok(rows.unwrap_or_else(|| self.waiting_usage.sum(group, filter)))
    }

    /// Returns the origin of the figures.
    pub fn usage_standing(&self) -> UsageStanding {
        let waiting = self.waiting_usage.0.lock();
        let since = matches!(self.store.exists(), Ok(false)).then_some(waiting.since);
        UsageStanding { since, written: waiting.written }
    }
}

/// Updates a reason, and logs when it appears and when it clears.
fn note(trouble: &mut Option<String>, error: Option<&StoreError>, what: &str) {
    let now = error.map(ToString::to_string);
    match (&*trouble, &now) {
        (None, Some(reason)) => {
            tracing::error!(reason, "the store cannot be {what}: the known state remains in use");
        }
        (Some(_), None) => tracing::info!("the store can be {what} again"),
        _ => {}
    }
    *trouble = now;
}

/// The origin of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageStanding {
    /// Set if the figures are in memory alone: the start of the count.
    pub since: Option<i64>,
    /// Time of the last write of this gateway to the store.
    pub written: Option<i64>,
}

/// Returns the number of days since 1970, in UTC.
fn today() -> i64 {
    i64::try_from(date::now() / SECONDS_PER_DAY).unwrap_or(0)
}
