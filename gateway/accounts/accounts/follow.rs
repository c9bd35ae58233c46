//! Follows the grants that other gateways with the same store change, and drops those that are not
//! in use from memory.

use std::sync::Arc;
use std::time::Duration;

use lockgate_store::GrantRecord;
use lockgate_text::json;

use super::{Accounts, ServerAccounts};
use crate::account::Account;
use crate::error::Result;
use crate::grant::About;
use crate::holder::record_holder;
use crate::records::{MAX_CHANGES, Storage};

/// Interval at which the store is polled for changes by other gateways, besides notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which unused accounts are dropped from memory.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which an account without connections is dropped from memory.
const UNUSED_AGE: Duration = Duration::from_secs(3600);
/// Time to wait for receivers of changes, and the interval of checks.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(1);
const RECEIVE_POLL: Duration = Duration::from_millis(5);

impl Accounts {
    /// Follows changes of grants by other gateways, until the future is dropped.
    pub async fn follow(&self) {
        let Some(storage) = &self.records.storage else { return };
        let mut follower = storage.store.follow();
        let mut known = storage.store.grant_revision().await.ok();
        let mut purged = tokio::time::Instant::now();
        loop {
            follower.wait(POLL_INTERVAL).await;
            if !self.has_users() {
                continue;
            }
            if let Err(error) = self.read_changes(storage, &mut known).await {
                tracing::debug!("changes of accounts are read later: {error}");
            }
            if purged.elapsed() >= PURGE_INTERVAL {
                purged = tokio::time::Instant::now();
                self.forget_unused();
            }
        }
    }

    /// Returns whether users connect accounts at any server.
    fn has_users(&self) -> bool {
        self.servers().iter().any(ServerAccounts::are_connectable)
    }

    /// Returns the accounts at all servers.
    fn servers(&self) -> Vec<ServerAccounts> {
        let mut found: Vec<_> = self.inner.lock().servers.values().cloned().collect();
        for servers in self.of_organisations.lock().values() {
            found.extend(servers.values().cloned());
        }
        found
    }

    /// Adopts the changes since the revision `known`. Without it, and after the store was replaced,
    /// all accounts in memory are read again.
    async fn read_changes(&self, storage: &Storage, known: &mut Option<i64>) -> Result<()> {
        let newest = storage.store.grant_revision().await?;
        let Some(since) = known.filter(|known| *known <= newest) else {
            for account in self.all() {
                if known.is_some() {
                    account.forget_revision();
                }
                account.reload().await?;
            }
            *known = Some(newest);
            return Ok(());
        };
        let mut since = since;
        while since < newest {
            let changed = storage.store.changed_grants(since).await?;
            let Some(last) = changed.last() else { break };
            since = last.revision;
            for record in &changed {
                if let Some(account) = self.find(&record.server, &record_holder(record)) {
                    account.adopt(record);
                }
                let about: About = json::from_str(&record.about).unwrap_or_default();
                if !about.is_renewed {
                    let record = GrantRecord { sealed: None, ..record.clone() };
                    self.tell_change(record).await;
                }
            }
            *known = Some(since);
        }
        *known = Some(newest);
        Ok(())
    }

    /// Sends a change to those that follow changes, which may be many at once: waits until there is
    /// space, unless a receiver does not go on.
    async fn tell_change(&self, record: GrantRecord) {
        let began = tokio::time::Instant::now();
        while self.records.changes.len() >= MAX_CHANGES && began.elapsed() < RECEIVE_TIMEOUT {
            tokio::time::sleep(RECEIVE_POLL).await;
        }
        let _ = self.records.changes.send(record);
    }

    /// Returns the accounts in memory that users have connected on a page.
    pub(super) fn all(&self) -> Vec<Arc<Account>> {
        let mut all = Vec::new();
        for accounts in self.servers().into_iter().filter(ServerAccounts::are_connectable) {
            all.extend(accounts.of_users.lock().values().cloned());
        }
        all
    }

    /// Drops accounts that have no connection from memory. The store has their grants.
    fn forget_unused(&self) {
        for accounts in self.servers() {
            accounts.of_users.lock().retain(|_, account| {
                Arc::strong_count(account) > 1 || account.since.elapsed() < UNUSED_AGE
            });
        }
    }
}

impl ServerAccounts {
    fn are_connectable(&self) -> bool {
        self.server.config.method.is_connectable()
    }
}

#[cfg(test)]
mod tests;
