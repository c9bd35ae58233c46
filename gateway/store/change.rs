//! Changes of an organisation, each in a transaction. Every change locks the clock row from its
//! beginning to its end: changes are in a total order, and data read in a change are current when
//! it writes.

mod records;

pub use records::is_integration;

use crate::connection::Transaction;
use crate::database::{Store, within};
use crate::error::{Result, StoreError};
use crate::value::{Record, Row, Value, record};
use lockgate_text::date::now_ms;

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
const NOTE_DELETED: &str =
    "INSERT INTO deleted_organisations (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
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

/// The issuer and subject of a principal: the key of everything stored for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalKey {
    pub issuer: String,
    pub subject: String,
}

record! {
    /// The outcome of a change with an idempotency key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Reservation {
        /// Digest of the request.
        pub digest: String,
        /// The response.
        pub outcome: String,
    }
}

/// A change in progress, which is rolled back on drop without [`Self::commit`].
pub struct Change<'a> {
    store: &'a Store,
    pub(crate) transaction: Transaction,
    organisation: String,
    now: i64,
    is_first: bool,
}

impl Store {
    /// Begins a change of an organisation. Waits for other changes in progress.
    pub async fn begin(&self, organisation: &str) -> Result<Change<'_>> {
        let pool = self.pool().await?;
        within(async {
            let now = now_ms();
            let mut transaction = pool.begin().await?;
            // Writing first takes the lock, so that no other change occurs before the commit.
            let revision: i64 = transaction.scalar(NEXT_REVISION, &[]).await?;
            let values = [organisation.into(), revision.into()];
            let is_first = transaction.execute(TOUCH, &values).await? == 0;
            if is_first {
                let values = [organisation.into(), revision.into(), now.into()];
                transaction.execute(INSERT, &values).await?;
            }
            let organisation = organisation.to_owned();
            Ok(Change { store: self, transaction, organisation, now, is_first })
        })
        .await
    }

    /// Deletes expired outcomes, in batches, and expired records and grants of accounts.
    pub async fn purge(&self) -> Result<()> {
        if !self.exists()? {
            return Ok(());
        }
        loop {
            let values = [now_ms().into(), MAX_PURGED.into()];
            if self.execute(PURGE, &values).await? < MAX_PURGED.unsigned_abs() {
                return self.purge_accounts().await;
            }
        }
    }
}

impl Change<'_> {
    /// Returns the start of the change in milliseconds since 1970, which is the timestamp of all
    /// its rows.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Returns whether nothing was stored for the organisation before.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Deletes the organisation, whose members connect no accounts until it is created again.
    /// Returns `false` if it has integrations or agents.
    pub async fn delete_organisation(&mut self) -> Result<bool> {
        if self.run(DELETE, &[(&self.organisation).into()]).await? == 0 {
            return Ok(false);
        }
        self.run(NOTE_DELETED, &[(&self.organisation).into()]).await?;
        Ok(true)
    }

    /// Finds the outcome of this principal's change with this idempotency key.
    pub async fn find_outcome(
        &mut self,
        owner: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Reservation>> {
        let PrincipalKey { issuer, subject } = owner;
        let organisation = &self.organisation;
        let values =
            [organisation.into(), issuer.into(), subject.into(), key.into(), self.now.into()];
        let row = self.find(FIND_OUTCOME, &values).await?;
        row.as_ref().map(Reservation::from_row).transpose()
    }

    /// Keeps the outcome of a change for a day. Drops the oldest outcomes above the maximum.
    pub async fn keep_outcome(
        &mut self,
        owner: &PrincipalKey,
        key: &str,
        kept: &Reservation,
    ) -> Result<()> {
        let organisation = &self.organisation;
        let values = [
            organisation.into(),
            (&owner.issuer).into(),
            (&owner.subject).into(),
            key.into(),
            (&kept.digest).into(),
            (&kept.outcome).into(),
            (self.now + OUTCOME_AGE).into(),
        ];
        let oldest = [organisation.into(), MAX_OUTCOMES.into()];
        self.run(KEEP_OUTCOME, &values).await?;
        self.run(DROP_OLDEST, &oldest).await.map(drop)
    }

    /// Commits the change and notifies other gateways.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Unknown`] without a response from the database.
    pub async fn commit(self) -> Result<()> {
        let Self { store, mut transaction, .. } = self;
        if store.postgres().is_some() {
            within(transaction.run("NOTIFY lockgate")).await?;
        }
        match within(transaction.commit()).await {
            Err(StoreError::Unavailable(reason)) => Err(StoreError::Unknown(reason)),
            committed => committed,
        }
    }

    pub async fn roll_back(self) -> Result<()> {
        within(self.transaction.roll_back()).await
    }

    /// Inserts a record of the organisation. Its first columns are `id` and `organisation`.
    /// Columns without a value are left out, because an older schema may lack them.
    async fn insert<T: Record>(&mut self, table: &str, record: &T) -> Result<()> {
        let mut columns = Vec::new();
        let mut places = Vec::new();
        let mut values = Vec::new();
        for (column, value) in T::COLUMNS.iter().zip(self.to_values(record)) {
            if value != Value::Null {
                columns.push(*column);
                values.push(value);
                places.push(format!("${}", values.len()));
            }
        }
        let columns = columns.join(", ");
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({})", places.join(", "));
        self.run(&sql, &values).await.map(drop)
    }

    /// Updates a record of the organisation. Its first columns are `id` and `organisation`.
    async fn update<T: Record>(&mut self, table: &str, record: &T) -> Result<()> {
        let columns = (1..).zip(T::COLUMNS).skip(2);
        let set: Vec<_> = columns.map(|(at, column)| format!("{column} = ${at}")).collect();
        let set = set.join(", ");
        let sql = format!("UPDATE {table} SET {set} WHERE id = $1 AND organisation = $2");
        self.run(&sql, &self.to_values(record)).await.map(drop)
    }

    /// Returns the values of a record in the organisation of the change.
    fn to_values(&self, record: &impl Record) -> Vec<Value> {
        let mut values = record.to_values();
        if let Some(organisation) = values.get_mut(1) {
            *organisation = (&self.organisation).into();
        }
        values
    }

    async fn find(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>> {
        within(self.transaction.find(sql, values)).await
    }

    async fn run(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        within(self.transaction.execute(sql, values)).await
    }

    async fn count(&mut self, sql: &str, values: &[Value]) -> Result<i64> {
        within(self.transaction.scalar(sql, values)).await
    }
}
