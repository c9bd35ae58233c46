//! Changes of an organisation, each in a transaction. Every change locks the clock row from its
//! beginning to its end: changes are in a total order, and data read in a change are current when
//! it writes.

mod agents;
mod integrations;

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyPool, Row, Transaction};

use crate::clock::now;
use crate::database::{Store, within};
use crate::error::StoreError;
use crate::schema::Dialect;

/// Time for which an outcome is kept for retries, in milliseconds.
const OUTCOME_AGE: i64 = 24 * 3600 * 1000;
/// Maximum number of outcomes of an organisation; the oldest are dropped.
const MAX_OUTCOMES: i64 = 1000;
/// Number of outcomes deleted in a statement, so that changes are not delayed for long.
const MAX_PURGED: i64 = 500;

const NEXT_REVISION: &str = "UPDATE clock SET revision = revision + 1 RETURNING revision";
const TOUCH: &str = "UPDATE organisations SET revision = $2 WHERE id = $1";
const INSERT: &str = "INSERT INTO organisations (id, revision, created_at) VALUES ($1, $2, $3)";
const DELETE: &str = "DELETE FROM organisations WHERE id = $1 \
    AND NOT EXISTS (SELECT 1 FROM integrations WHERE organisation = $1) \
    AND NOT EXISTS (SELECT 1 FROM agents WHERE organisation = $1)";
const KEEP_OUTCOME: &str = "INSERT INTO outcomes (organisation, issuer, subject, key, digest, \
    outcome, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
    ON CONFLICT (organisation, issuer, subject, key) DO UPDATE SET digest = excluded.digest, \
    outcome = excluded.outcome, expires_at = excluded.expires_at";
const FIND_OUTCOME: &str = "SELECT digest, outcome FROM outcomes WHERE organisation = $1 \
    AND issuer = $2 AND subject = $3 AND key = $4 AND expires_at > $5";
const DROP_OLDEST: &str = "DELETE FROM outcomes WHERE organisation = $1 AND (issuer, subject, key) \
    IN (SELECT issuer, subject, key FROM outcomes WHERE organisation = $1 \
    ORDER BY expires_at DESC, issuer, subject, key LIMIT 1000 OFFSET $2)";
const PURGE: &str = "DELETE FROM outcomes WHERE (organisation, issuer, subject, key) IN \
    (SELECT organisation, issuer, subject, key FROM outcomes WHERE expires_at <= $1 LIMIT $2)";

#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub issuer: &'a str,
    pub subject: &'a str,
}

/// The outcome of a change with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Digest of the request.
    pub digest: String,
    /// The response.
    pub outcome: String,
}

/// A change in progress, which is rolled back on drop without [`Self::commit`].
pub struct Change<'a> {
    store: &'a Store,
    pub(crate) transaction: Transaction<'static, Any>,
    organisation: String,
    now: i64,
    is_first: bool,
}

impl Store {
    /// Begins a change of an organisation. Waits for other changes in progress.
    pub async fn begin(&self, organisation: &str) -> Result<Change<'_>, StoreError> {
        let pool = self.pool().await?;
        within(async {
            let now = now();
            let (transaction, is_first) = match begin(&pool, organisation, now).await {
                Err(sqlx::Error::PoolTimedOut) => return Err(self.explain_waiting().await),
                begun => self.answer(begun)?,
            };
            let organisation = organisation.to_owned();
            Ok(Change { store: self, transaction, organisation, now, is_first })
        })
        .await
    }
}

impl Store {
    /// Deletes expired outcomes in batches.
    pub async fn purge_outcomes(&self) -> Result<(), StoreError> {
        if self.file().is_some() && self.identify()?.is_none() {
            return Ok(());
        }
        let pool = self.pool().await?;
        loop {
            let purge = sqlx::query(PURGE).bind(now()).bind(MAX_PURGED);
            let purged = self.ask(purge.execute(&pool)).await?;
            if purged.rows_affected() < MAX_PURGED.unsigned_abs() {
                return Ok(());
            }
        }
    }
}

/// Begins a transaction, and returns whether it is the organisation's first.
async fn begin(
    pool: &AnyPool,
    organisation: &str,
    now: i64,
) -> sqlx::Result<(Transaction<'static, Any>, bool)> {
    let mut transaction = pool.begin().await?;
    // Writing first takes the lock, so that no other change occurs before the commit.
    let revision: i64 = sqlx::query_scalar(NEXT_REVISION).fetch_one(&mut *transaction).await?;
    let touch = sqlx::query(TOUCH).bind(organisation).bind(revision);
    let is_first = touch.execute(&mut *transaction).await?.rows_affected() == 0;
    if is_first {
        let insert = sqlx::query(INSERT).bind(organisation).bind(revision).bind(now);
        insert.execute(&mut *transaction).await?;
    }
    Ok((transaction, is_first))
}

impl Change<'_> {
    /// Returns the start of the change in milliseconds since 1970, which is the timestamp of all
    /// its rows.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Returns whether nothing was stored for the organisation before.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Deletes the organisation. Returns `false` if it has integrations or agents.
    pub async fn delete_organisation(&mut self) -> Result<bool, StoreError> {
        let query = sqlx::query(DELETE).bind(self.organisation.clone());
        Ok(self.run(query).await? > 0)
    }

    /// Finds the outcome of this principal's change with this idempotency key.
    pub async fn find_outcome(
        &mut self,
        owner: Owner<'_>,
        key: &str,
    ) -> Result<Option<Reservation>, StoreError> {
        let query = sqlx::query(FIND_OUTCOME).bind(self.organisation.clone());
        let query = query.bind(owner.issuer.to_owned()).bind(owner.subject.to_owned());
        let query = query.bind(key.to_owned()).bind(self.now);
        let Some(row) = self.find(query).await? else { return Ok(None) };
        let digest = self.store.answer(row.try_get("digest"))?;
        let outcome = self.store.answer(row.try_get("outcome"))?;
        Ok(Some(Reservation { digest, outcome }))
    }

    /// Keeps the outcome of a change for a day. Drops the oldest outcomes above the maximum.
    pub async fn keep_outcome(
        &mut self,
        owner: Owner<'_>,
        key: &str,
        kept: &Reservation,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(KEEP_OUTCOME).bind(self.organisation.clone());
        let query = query.bind(owner.issuer.to_owned()).bind(owner.subject.to_owned());
        let query = query.bind(key.to_owned()).bind(kept.digest.clone());
        let query = query.bind(kept.outcome.clone()).bind(self.now + OUTCOME_AGE);
        self.run(query).await?;
        let oldest = sqlx::query(DROP_OLDEST).bind(self.organisation.clone());
        self.run(oldest.bind(MAX_OUTCOMES)).await?;
        Ok(())
    }

    /// Commits the change and notifies other gateways.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Unknown`] without a response from the database.
    pub async fn commit(self) -> Result<(), StoreError> {
        let Self { store, mut transaction, .. } = self;
        if store.dialect == Dialect::Postgres {
            store.ask(sqlx::raw_sql("NOTIFY lockgate").execute(&mut *transaction)).await?;
        }
        let committed = within(async {
            match transaction.commit().await {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::of_commit(&error, store.file())),
            }
        });
        match committed.await {
            Err(StoreError::Unavailable(reason)) => Err(StoreError::Unknown(reason)),
            committed => committed,
        }
    }

    pub async fn roll_back(self) -> Result<(), StoreError> {
        let Self { store, transaction, .. } = self;
        store.ask(transaction.rollback()).await
    }

    async fn find(
        &mut self,
        query: Query<'_, Any, AnyArguments>,
    ) -> Result<Option<AnyRow>, StoreError> {
        self.store.ask(query.fetch_optional(&mut *self.transaction)).await
    }

    async fn run(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<u64, StoreError> {
        let done = self.store.ask(query.execute(&mut *self.transaction)).await?;
        Ok(done.rows_affected())
    }

    async fn count(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<i64, StoreError> {
        let row = self.store.ask(query.fetch_one(&mut *self.transaction)).await?;
        self.store.answer(row.try_get(0))
    }
}
