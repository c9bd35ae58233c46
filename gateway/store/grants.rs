//! Grants of users at servers, with sealed tokens, and the sealed records of connecting accounts.
//! Grants have revisions of their own: a refresh changes no organisation. A change names the
//! revision that it replaces, so that of two concurrent changes only the first is made.

use serde::Serialize;

use crate::connection::Transaction;
use crate::database::{Store, within};
use crate::error::{Result, VaultError};
use crate::gateways::read_time;
use crate::value::{Record, Row, Value, from_rows, record};
use crate::vault::{Field, Secret, Vault};
use lockgate_text::date::now_ms;

/// Time for which a gateway may refresh a grant alone, in milliseconds. Longer than the timeout of
/// the request.
const LEASE: i64 = 15_000;
/// Time after which the row of an ended grant is deleted, in milliseconds.
const ENDED_AGE: i64 = 24 * 3600 * 1000;
/// Maximum number of grants that are listed or read at once.
const MAX_LISTED: i64 = 10_000;

const NEXT_REVISION: &str = "UPDATE grant_clock SET revision = revision + 1 RETURNING revision";
const REVISION: &str = "SELECT revision FROM grant_clock WHERE id = 1";
const FIND: &str = "SELECT * FROM grants WHERE id = $1";
const PUT: &str = "INSERT INTO grants (id, organisation, issuer, subject, server, revision, state, \
    about, sealed, leased_until, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10) \
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, state = excluded.state, \
    about = excluded.about, sealed = excluded.sealed, leased_until = 0, \
    updated_at = excluded.updated_at";
const REPLACE: &str = "UPDATE grants SET revision = $3, state = $4, about = $5, sealed = $6, \
    leased_until = 0, updated_at = $7 WHERE id = $1 AND revision = $2";
const NOTE: &str = "UPDATE grants SET revision = $3, state = $4, about = $5, updated_at = $6 \
    WHERE id = $1 AND revision = $2 AND leased_until < $7 AND sealed IS NOT NULL";
const TAKE_LEASE: &str = "UPDATE grants SET leased_until = $3 WHERE id = $1 AND revision = $2 \
    AND leased_until < $4 AND sealed IS NOT NULL";
const END_LEASE: &str = "UPDATE grants SET leased_until = 0 WHERE id = $1 AND revision = $2";
const LIST: &str = "SELECT id, organisation, issuer, subject, server, revision, state, about, \
    CAST(NULL AS bytea) AS sealed, updated_at FROM grants WHERE state <> 'disconnected' \
    AND ($1 = '' OR organisation = $1) AND ($2 = '' OR issuer = $2 AND subject = $3) \
    AND ($4 = '' OR server = $4) ORDER BY organisation, issuer, subject, server LIMIT $5";
const FIND_INTEGRATION: &str = "SELECT auth FROM integrations WHERE organisation = $1 \
    AND slug = $2 AND auth = $3";
/// Keeps deletions of organisations out until the commit.
const LOCK_CHANGES: &str = "SELECT revision FROM clock WHERE id = 1 FOR SHARE";
const FIND_DELETED: &str = "SELECT id FROM deleted_organisations WHERE id = $1 \
    AND NOT EXISTS (SELECT 1 FROM organisations WHERE id = $1)";
const CHANGED: &str = "SELECT * FROM grants WHERE revision > $1 ORDER BY revision LIMIT $2";
const SEALED: &str =
    "SELECT * FROM grants WHERE sealed IS NOT NULL AND id > $1 ORDER BY id LIMIT $2";
const DELETE_ENDED: &str = "DELETE FROM grants WHERE sealed IS NULL AND updated_at < $1";

const KEEP_RECORD: &str = "INSERT INTO account_records (id, owner, sealed, expires_at) \
    VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, \
    expires_at = excluded.expires_at";
const DROP_OLDEST: &str = "DELETE FROM account_records WHERE owner = $1 AND id NOT IN \
    (SELECT id FROM account_records WHERE owner = $1 ORDER BY expires_at DESC, id LIMIT $2)";
const FIND_RECORD: &str = "SELECT * FROM account_records WHERE id = $1 AND expires_at > $2";
const LIST_RECORDS: &str = "SELECT * FROM account_records ORDER BY id";
const DROP_RECORD: &str = "DELETE FROM account_records WHERE id = $1";
const DELETE_EXPIRED: &str = "DELETE FROM account_records WHERE expires_at <= $1";

record! {
    /// A row of `grants`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GrantRecord {
        /// Identifies holder and server.
        pub id: String,
        pub organisation: String,
        pub issuer: String,
        pub subject: String,
        pub server: String,
        /// Of the last change. Revisions of all grants are in a total order.
        pub revision: i64,
        pub state: String,
        /// JSON without secrets, for lists.
        pub about: String,
        /// `None` after the end of the grant.
        pub sealed: Option<Vec<u8>>,
        /// Milliseconds since 1970.
        pub updated_at: i64,
    }
}

record! {
    /// A row of `account_records`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccountRecord {
        pub id: String,
        /// Groups records, for their maximum number.
        pub owner: String,
        pub sealed: Vec<u8>,
        /// Milliseconds since 1970.
        pub expires_at: i64,
    }
}

/// A selection of grants; empty texts select all.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantFilter<'a> {
    pub organisation: &'a str,
    pub issuer: &'a str,
    pub subject: &'a str,
    pub server: &'a str,
}

/// The outcome of a key rotation: numbers of values, and the ids of those that no key opens, which
/// are left unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resealed {
    pub resealed: usize,
    pub current: usize,
    pub unusable: Vec<String>,
}

impl GrantRecord {
    /// Names the holder and the server without ambiguity.
    fn place(&self) -> String {
        let Self { issuer, subject, server, .. } = self;
        format!("{}:{issuer}{}:{subject}{server}", issuer.len(), subject.len())
    }

    fn field<'a>(&'a self, place: &'a str) -> Field<'a> {
        Field { organisation: &self.organisation, record: place, field: "grant" }
    }

    /// Seals the tokens for this holder and server alone.
    pub fn seal(&mut self, vault: &Vault, tokens: &Secret) -> Result<(), VaultError> {
        self.sealed = Some(vault.seal(&self.field(&self.place()), tokens)?);
        Ok(())
    }

    /// Returns the tokens; `None` after the end of the grant.
    ///
    /// # Errors
    /// [`VaultError`], if the row was altered or copied from another holder or server.
    pub fn open(&self, vault: &Vault) -> Result<Option<Secret>, VaultError> {
        let place = self.place();
        let field = self.field(&place);
        self.sealed.as_ref().map(|sealed| vault.open(&field, sealed)).transpose()
    }
}

impl AccountRecord {
    fn field<'a>(owner: &'a str, id: &'a str) -> Field<'a> {
        Field { organisation: owner, record: id, field: "account record" }
    }

    /// Creates a record that is sealed for this id and owner.
    pub fn seal(
        vault: &Vault,
        (id, owner): (String, String),
        content: &Secret,
        expires_at: i64,
    ) -> Result<Self, VaultError> {
        let sealed = vault.seal(&Self::field(&owner, &id), content)?;
        Ok(Self { id, owner, sealed, expires_at })
    }

    /// # Errors
    /// [`VaultError`], if the row was altered or copied from another.
    pub fn open(&self, vault: &Vault) -> Result<Secret, VaultError> {
        vault.open(&Self::field(&self.owner, &self.id), &self.sealed)
    }
}

impl Store {
    async fn grants(&self, sql: &str, values: &[Value]) -> Result<Vec<GrantRecord>> {
        from_rows(&self.rows(sql, values).await?)
    }

    pub async fn find_grant(&self, id: &str) -> Result<Option<GrantRecord>> {
        Ok(self.grants(FIND, &[id.into()]).await?.pop())
    }

    /// Lists grants that have not ended, at most 10,000, without their tokens.
    pub async fn list_grants(&self, filter: GrantFilter<'_>) -> Result<Vec<GrantRecord>> {
        let GrantFilter { organisation, issuer, subject, server } = filter;
        let values =
            [organisation.into(), issuer.into(), subject.into(), server.into(), MAX_LISTED.into()];
        self.grants(LIST, &values).await
    }

    /// Returns the revision of the last change of any grant.
    pub async fn grant_revision(&self) -> Result<i64> {
        let rows = self.rows(REVISION, &[]).await?;
        rows.first().map_or(Ok(0), Row::first)
    }

    /// Returns the grants that have changed since a revision, in the order of their changes.
    pub async fn changed_grants(&self, since: i64) -> Result<Vec<GrantRecord>> {
        self.grants(CHANGED, &[since.into(), MAX_LISTED.into()]).await
    }

    /// Writes a grant and notifies other gateways. `over` is the revision that it replaces; `None`
    /// replaces any. Returns its revision, or `None` if the row has another revision, or if the
    /// organisation of a new grant was deleted. A new grant at an integration requires its method
    /// of authentication, `auth`: if the integration was deleted or its method has changed, the
    /// grants of its members were ended, and another would remain unused.
    pub async fn write_grant(
        &self,
        record: &GrantRecord,
        over: Option<i64>,
        auth: Option<&str>,
    ) -> Result<Option<i64>> {
        let pool = self.pool().await?;
        within(async {
            let mut transaction = pool.begin().await?;
            let is_new = over.is_none() && record.sealed.is_some();
            // Before the grants' clock, so that refreshes do not wait for changes. Writers of
            // SQLite take turns anyway.
            if is_new && transaction.is_postgres() {
                transaction.list(LOCK_CHANGES, &[]).await?;
            }
            let revision: i64 = transaction.scalar(NEXT_REVISION, &[]).await?;
            let is_refused = is_new && !may_write(&mut transaction, record, auth).await?;
            let written = match over {
                _ if is_refused => 0,
                over => write(&mut transaction, record, revision, over).await?,
            };
            self.end_write(transaction, written, revision).await
        })
        .await
    }

    /// Changes the description of a grant of this revision, unless a gateway refreshes it. Returns
    /// its new revision.
    pub async fn note_grant(&self, record: &GrantRecord, over: i64) -> Result<Option<i64>> {
        let pool = self.pool().await?;
        within(async {
            let mut transaction = pool.begin().await?;
            let revision: i64 = transaction.scalar(NEXT_REVISION, &[]).await?;
            let now = read_time(&mut transaction).await?;
            let values = [
                (&record.id).into(),
                over.into(),
                revision.into(),
                (&record.state).into(),
                (&record.about).into(),
                now.into(),
                now.into(),
            ];
            let written = transaction.execute(NOTE, &values).await?;
            self.end_write(transaction, written, revision).await
        })
        .await
    }

    /// Commits a revision and notifies other gateways, unless no row was written.
    async fn end_write(
        &self,
        mut transaction: Transaction,
        written: u64,
        revision: i64,
    ) -> Result<Option<i64>> {
        if written == 0 {
            transaction.roll_back().await?;
            return Ok(None);
        }
        if transaction.is_postgres() {
            transaction.run("NOTIFY lockgate").await?;
        }
        transaction.commit().await?;
        Ok(Some(revision))
    }

    /// Takes the lease to refresh a grant of this revision. Returns `false` if another gateway has
    /// it, or the grant has changed. The lease ends with the next change, or after 15 s.
    pub async fn lease_grant(&self, id: &str, revision: i64) -> Result<bool> {
        let pool = self.pool().await?;
        within(async {
            let mut transaction = pool.begin().await?;
            let now = read_time(&mut transaction).await?;
            let values = [id.into(), revision.into(), (now + LEASE).into(), now.into()];
            let taken = transaction.execute(TAKE_LEASE, &values).await?;
            transaction.commit().await?;
            Ok(taken > 0)
        })
        .await
    }

    /// Ends a lease without a change.
    pub async fn end_lease(&self, id: &str, revision: i64) -> Result<()> {
        self.execute(END_LEASE, &[id.into(), revision.into()]).await.map(drop)
    }

    /// Stores a record. Of its owner's records, only the newest `max` are kept.
    pub async fn keep_account_record(&self, record: &AccountRecord, max: i64) -> Result<()> {
        self.execute(KEEP_RECORD, &record.to_values()).await?;
        self.execute(DROP_OLDEST, &[(&record.owner).into(), max.into()]).await.map(drop)
    }

    /// Returns a record that has not expired.
    pub async fn find_account_record(&self, id: &str) -> Result<Option<AccountRecord>> {
        let rows = self.rows(FIND_RECORD, &[id.into(), now_ms().into()]).await?;
        rows.first().map(AccountRecord::from_row).transpose()
    }

    /// Deletes a record. Returns `false` if another request has deleted it.
    pub async fn drop_account_record(&self, id: &str) -> Result<bool> {
        Ok(self.execute(DROP_RECORD, &[id.into()]).await? > 0)
    }

    /// Deletes expired records, and the rows of grants that ended a day ago.
    pub(crate) async fn purge_accounts(&self) -> Result<()> {
        self.execute(DELETE_EXPIRED, &[now_ms().into()]).await?;
        self.execute(DELETE_ENDED, &[(now_ms() - ENDED_AGE).into()]).await.map(drop)
    }

    /// Seals all grants and records with the first key of the vault. Contents and revisions stay.
    pub async fn reseal_accounts(&self, vault: &Vault) -> Result<Resealed> {
        let mut done = Resealed::default();
        let mut after = String::new();
        loop {
            let batch = self.grants(SEALED, &[(&after).into(), MAX_LISTED.into()]).await?;
            let Some(last) = batch.last() else { break };
            after.clone_from(&last.id);
            for record in &batch {
                let place = record.place();
                let Some(sealed) = &record.sealed else { continue };
                let row = ("grants", &*record.id, sealed);
                self.reseal(vault, row, &record.field(&place), &mut done).await?;
            }
        }
        for row in self.rows(LIST_RECORDS, &[]).await? {
            let AccountRecord { id, owner, sealed, .. } = AccountRecord::from_row(&row)?;
            let row = ("account_records", &*id, &sealed);
            self.reseal(vault, row, &AccountRecord::field(&owner, &id), &mut done).await?;
        }
        Ok(done)
    }

    /// Seals a value with the first key. A value that was written meanwhile is left to the next
    /// run.
    async fn reseal(
        &self,
        vault: &Vault,
        (table, id, sealed): (&str, &str, &Vec<u8>),
        field: &Field<'_>,
        done: &mut Resealed,
    ) -> Result<()> {
        if vault.is_current(sealed) {
            done.current += 1;
            return Ok(());
        }
        let Ok(content) = vault.open(field, sealed) else {
            done.unusable.push(id.to_owned());
            return Ok(());
        };
        let new = vault.seal(field, &content)?;
        let sql = format!("UPDATE {table} SET sealed = $3 WHERE id = $1 AND sealed = $2");
        // A value that changed meanwhile was sealed by its writer.
        if self.execute(&sql, &[id.into(), sealed.into(), (&new).into()]).await? > 0 {
            done.resealed += 1;
        }
        Ok(())
    }
}

/// Returns whether a new grant may be written.
async fn may_write(
    transaction: &mut Transaction,
    record: &GrantRecord,
    auth: Option<&str>,
) -> Result<bool> {
    let organisation = Value::from(&record.organisation);
    let Some(auth) = auth else {
        return Ok(transaction.find(FIND_DELETED, &[organisation]).await?.is_none());
    };
    let values = [organisation, (&record.server).into(), auth.into()];
    Ok(transaction.find(FIND_INTEGRATION, &values).await?.is_some())
}

/// Inserts or replaces the row, and returns the number of changed rows.
async fn write(
    transaction: &mut Transaction,
    record: &GrantRecord,
    revision: i64,
    over: Option<i64>,
) -> Result<u64> {
    let Some(over) = over else {
        let written = GrantRecord { revision, updated_at: now_ms(), ..record.clone() };
        return transaction.execute(PUT, &written.to_values()).await;
    };
    let values = [
        (&record.id).into(),
        over.into(),
        revision.into(),
        (&record.state).into(),
        (&record.about).into(),
        (&record.sealed).into(),
        now_ms().into(),
    ];
    transaction.execute(REPLACE, &values).await
}
