//! The stored grant of an account: reading it, writing it before it is used, the lease for a
//! refresh, and its end. The newest revision wins, whichever gateway made it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_store::GrantRecord;
use lockgate_text::date::to_ms;
use lockgate_text::json;

use super::{Account, Needs, Refusal};
use crate::config::Method;
use crate::error::{AccountError, Result};
use crate::grant::{About, AccountState, Grant};
use crate::holder::{DISCONNECTED, Holder, new_record, record_holder};
use crate::records::{Storage, locked};
use crate::token_endpoint::revoke_token;

/// Interval at which a grant is read that another gateway refreshes.
const LEASE_POLL: Duration = Duration::from_millis(50);
/// Time to wait for another gateway's refresh. Longer than its lease.
const LEASE_TIMEOUT: Duration = Duration::from_secs(16);
/// Attempts to write over concurrent changes.
const MAX_ATTEMPTS: usize = 5;

/// What a change means for the connections of a grant.
#[derive(Clone, Copy)]
enum Change {
    /// There is no grant, or it was read for the first time.
    None,
    Renewed {
        /// Whether the last attempt had failed.
        has_failed: bool,
    },
    /// An authorization, possibly of another account than before.
    Connected,
    Ended,
}

impl Account {
    /// Returns the storage of a user's grant.
    fn storage(&self) -> Option<(&Storage, &Holder)> {
        let storage = self.records.storage.as_ref().filter(|_| self.is_connectable());
        storage.zip(self.holder.as_ref())
    }

    /// Returns whether the stored grant has been read.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.initialized()
    }

    /// Reads the stored grant on first use.
    pub(crate) async fn load(&self) -> Result<()> {
        self.loaded.get_or_try_init(async || self.reload().await.map(drop)).await?;
        Ok(())
    }

    /// Reads the stored grant. Returns whether there is one that was not disconnected.
    pub(crate) async fn reload(&self) -> Result<bool> {
        let Some((storage, _)) = self.storage() else { return Ok(self.is_connected()) };
        let before = self.needs.lock().revision;
        let Some(record) = storage.store.find_grant(&self.id).await? else {
            let needs = self.needs.lock();
            // A grant of another revision was stored meanwhile.
            let is_over = needs.revision == before && self.grant.swap(None).is_some();
            drop(needs);
            if is_over {
                self.announce(Change::Ended);
            }
            return Ok(self.is_connected());
        };
        self.adopt(&record);
        Ok(record.state != DISCONNECTED)
    }

    /// Lets the next reading adopt any revision: the store was replaced.
    pub(crate) fn forget_revision(&self) {
        self.needs.lock().revision = 0;
    }

    /// Returns the record of a grant in memory, without tokens.
    pub(crate) fn describe(&self) -> Option<GrantRecord> {
        let grant = self.grant.load_full()?;
        let mut record = new_record(&self.id, self.holder.as_ref()?, &self.server.slug);
        let mut about = grant.describe();
        let needs = self.needs.lock();
        about.needed.clone_from(&needs.scopes);
        about.step_up.clone_from(&needs.step_up);
        drop(needs);
        describe_in(&mut record, &about, self.state());
        Some(record)
    }

    /// Sends the state of a user's account to those that follow changes. Where grants are stored,
    /// they hear of stored changes from the store.
    pub(super) fn tell(&self, failure: Option<&AccountError>) {
        let Some(holder) = self.holder.as_ref().filter(|_| self.is_connectable()) else { return };
        let record = self.describe();
        let mut record = record.unwrap_or_else(|| new_record(&self.id, holder, &self.server.slug));
        let mut about: About = json::from_str(&record.about).unwrap_or_default();
        about.failure = failure.map(ToString::to_string);
        record.about = serde_json::to_string(&about).unwrap_or_default();
        let _ = self.records.changes.send(record);
    }

    /// Adopts a stored record, unless a newer one is known.
    pub(crate) fn adopt(&self, record: &GrantRecord) {
        let Some((storage, _)) = self.storage() else { return };
        if record.revision <= self.needs.lock().revision {
            return;
        }
        let config = &self.server.config;
        let grant = match record.open(&storage.vault) {
            Ok(tokens) => tokens.and_then(|tokens| Grant::read(&tokens, config)),
            Err(error) => {
                let Holder { organisation, issuer, subject, .. } = record_holder(record);
                let words = format!(
                    "the stored account of {issuer}|{subject} ({organisation}) at `{}` cannot be \
                        decrypted: {error}",
                    record.server
                );
                tracing::error!("{words}");
                if let Some(observer) = self.records.observer() {
                    observer.unopened(&words);
                }
                None
            }
        };
        // The server's settings may have changed since.
        let grant = grant.filter(|grant| grant.is_for(config));
        let about: About = json::from_str(&record.about).unwrap_or_default();
        let mut needs = self.needs.lock();
        if record.revision > needs.revision {
            let change = self.install(&mut needs, grant, record.revision);
            needs.scopes = about.needed;
            needs.step_up = about.step_up;
            needs.is_shared = true;
            if needs.is_waiting() {
                needs.last_refusal = Refusal::Scope;
            }
            drop(needs);
            self.announce(change);
        }
    }

    /// Puts a grant of a newer revision into use.
    fn install(&self, needs: &mut Needs, grant: Option<Grant>, revision: i64) -> Change {
        needs.revision = revision;
        let has_failed = needs.last_failure.take().is_some();
        needs.last_refusal = Refusal::Token;
        if let Some(grant) = &grant {
            needs.scopes.retain(|scope| !grant.scopes.contains(scope));
        }
        let connected_at = grant.as_ref().map(|grant| to_ms(grant.connected_at));
        let old = self.grant.swap(grant.map(Arc::new));
        let change = match (old, connected_at) {
            (None, None) => Change::None,
            (Some(_), None) => Change::Ended,
            (None, Some(_)) if !self.is_loaded() => Change::None,
            (Some(old), Some(at)) if at == to_ms(old.connected_at) => {
                Change::Renewed { has_failed }
            }
            _ => Change::Connected,
        };
        if !matches!(change, Change::Renewed { .. }) {
            needs.step_up = None;
        }
        // The stored record of a new grant has no requirements.
        needs.is_shared = !needs.is_waiting();
        change
    }

    fn announce(&self, change: Change) {
        if let Change::Renewed { has_failed: true } = change {
            self.tell(None);
        }
        let Some(holder) = &self.holder else { return };
        let Some(observer) = self.records.observer() else { return };
        match change {
            Change::Connected if self.is_connectable() => {
                observer.connected(&self.server.slug, holder);
            }
            Change::None | Change::Renewed { .. } | Change::Connected => {}
            Change::Ended => observer.ended(&self.server.slug, holder),
        }
    }

    /// Stores a grant that its user has authorized, and puts it into use.
    ///
    /// # Errors
    /// The store cannot be written, or the integration or organisation was deleted meanwhile. The
    /// grant is revoked.
    pub(crate) async fn connect(self: &Arc<Self>, grant: Grant) -> Result<()> {
        let written = self.write(Some(grant.clone()), None, None).await;
        if !matches!(written, Ok(true)) {
            self.revoke_in_background(Arc::new(grant));
        }
        if written? {
            return Ok(());
        }
        let words = "the server or the organisation was deleted, or the server's method of \
            authentication was changed";
        Err(AccountError::Invalid(words.into()))
    }

    /// Stores a grant, or its end, and puts it into use. `over` is the revision that it replaces;
    /// `None` replaces any. Returns `false` if the grant has another revision, which is adopted,
    /// or belongs to an integration or organisation that was deleted.
    pub(crate) async fn write(
        &self,
        grant: Option<Grant>,
        over: Option<i64>,
        failure: Option<&AccountError>,
    ) -> Result<bool> {
        let Some((storage, holder)) = self.storage() else {
            let mut needs = self.needs.lock();
            if over.is_some_and(|over| over != needs.revision) {
                return Ok(false);
            }
            let revision = needs.revision + 1;
            let change = self.install(&mut needs, grant, revision);
            drop(needs);
            self.announce(change);
            if over.is_none() || !self.is_connected() {
                self.tell(failure);
            }
            return Ok(true);
        };
        let mut record = new_record(&self.id, holder, &self.server.slug);
        if let Some(grant) = &grant {
            let about = About { is_renewed: over.is_some(), ..grant.describe() };
            describe_in(&mut record, &about, AccountState::Connected);
            record.seal(&storage.vault, &grant.write()?).map_err(locked)?;
        } else if let Some(failure) = failure {
            let about = About { failure: Some(failure.to_string()), ..About::default() };
            describe_in(&mut record, &about, AccountState::NeedsConnect);
        }
        let auth = self.server.integration_auth();
        let Some(revision) = storage.store.write_grant(&record, over, auth).await? else {
            self.reload().await?;
            return Ok(false);
        };
        let mut needs = self.needs.lock();
        if revision > needs.revision {
            let change = self.install(&mut needs, grant, revision);
            drop(needs);
            self.announce(change);
        }
        Ok(true)
    }

    /// Stores the server's requirements, so that the user may authorize again at any gateway. Gives
    /// way to every other change.
    pub async fn share_needs(&self) {
        if let Err(error) = self.store_needs().await {
            tracing::debug!("requirements of an account are not stored: {error}");
        }
    }

    async fn store_needs(&self) -> Result<()> {
        let Some((storage, _)) = self.storage() else {
            let mut needs = self.needs.lock();
            let is_new = needs.is_waiting() && !std::mem::replace(&mut needs.is_shared, true);
            drop(needs);
            if is_new {
                self.tell(None);
            }
            return Ok(());
        };
        for _ in 0..MAX_ATTEMPTS {
            let before = self.needs.lock().clone();
            self.reload().await?;
            if self.needs.lock().revision != before.revision {
                // Another gateway has stored another grant, which may not meet the requirements.
                self.require(self.beyond_grant(before.scopes), before.step_up);
            }
            let needs = self.needs.lock().clone();
            let Some(record) = self.describe().filter(|_| !needs.is_shared) else { break };
            if let Some(newer) = storage.store.note_grant(&record, needs.revision).await? {
                let mut known = self.needs.lock();
                if known.revision == needs.revision {
                    known.revision = newer;
                    known.is_shared = true;
                }
                break;
            }
        }
        Ok(())
    }

    /// Stores a refreshed grant before it is used. If the grant was ended meanwhile, the new tokens
    /// are revoked. Without the store, they wait for the next attempt.
    pub(super) async fn keep_refreshed(
        self: &Arc<Self>,
        new: Grant,
        over: i64,
        unwritten: &mut Option<(Grant, i64)>,
    ) -> Result<bool> {
        let is_written = match self.write(Some(new.clone()), Some(over), None).await {
            Ok(is_written) => is_written,
            Err(error) => {
                *unwritten = Some((new, over));
                return Err(error);
            }
        };
        let live = self.grant.load_full();
        // An earlier attempt may have stored the tokens although its response was lost.
        let is_live = live.as_ref().is_some_and(|live| live.header == new.header);
        if is_written || is_live {
            self.record("refresh account", &new.scopes, None);
        } else if live.is_none() {
            self.revoke_in_background(Arc::new(new));
        }
        Ok(is_written || is_live)
    }

    /// Takes the lease for a refresh. Returns `false` when another gateway has changed the grant,
    /// which is adopted.
    pub(super) async fn take_lease(&self, revision: i64) -> Result<bool> {
        let Some((storage, _)) = self.storage() else { return Ok(true) };
        let began = Instant::now();
        loop {
            if storage.store.lease_grant(&self.id, revision).await? {
                return Ok(true);
            }
            self.reload().await?;
            if self.needs.lock().revision != revision || !self.is_connected() {
                return Ok(false);
            }
            if began.elapsed() > LEASE_TIMEOUT {
                let words = "another gateway does not finish renewing the token";
                return Err(AccountError::Unreachable(words.into()));
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
    }

    pub(super) async fn end_lease(&self, revision: i64) {
        if let Some((storage, _)) = self.storage()
            && let Err(error) = storage.store.end_lease(&self.id, revision).await
        {
            tracing::debug!(%error, "a lease ends by its time");
        }
    }

    /// Wipes the grant, and revokes it in the background. Returns `false` if there is none.
    pub(crate) async fn disconnect(self: Arc<Self>) -> Result<bool> {
        for _ in 0..MAX_ATTEMPTS {
            if !self.reload().await? {
                return Ok(false);
            }
            let (grant, revision, _) = self.current();
            if self.write(None, Some(revision), None).await? {
                if let Some(grant) = grant {
                    self.revoke_in_background(grant);
                }
                return Ok(true);
            }
        }
        Err(AccountError::Internal("the account is changed by many gateways at once"))
    }

    /// Revokes a grant in a separate task, because the revocation may wait for others.
    fn revoke_in_background(self: &Arc<Self>, grant: Arc<Grant>) {
        let account = Arc::clone(self);
        tokio::spawn(async move { account.revoke(&grant).await });
    }

    /// Revokes a grant at the authorization server that issued it (RFC 7009), if it can be reached.
    /// Waits for a slot.
    pub(super) async fn revoke(&self, grant: &Grant) {
        if self.server.config.method == Method::UserKey {
            return;
        }
        // An error only if the semaphore is closed, which never happens.
        let _slot = self.records.revocations.acquire().await;
        let revoked = async {
            let found = self.server.discovered_for(&grant.issuer).await?;
            let (token, hint) = grant.revocable();
            let fetcher = &self.server.fetcher;
            revoke_token(fetcher, &found.server, &grant.client, &[("token", token), hint]).await
        };
        if let Err(error) = revoked.await {
            tracing::warn!(server = self.server.slug, "a grant could not be revoked: {error}");
        }
    }
}

fn describe_in(record: &mut GrantRecord, about: &About, state: AccountState) {
    record.state = state.as_str().into();
    record.about = serde_json::to_string(about).unwrap_or_default();
}
