//! The gateways that share this database, each with a fingerprint of its secret, to detect
//! gateways with different secrets. Rows have no secret, address or name.

use sqlx::{AnyConnection, Row};

use crate::clock::now;
use crate::database::{Store, within};
use crate::error::StoreError;
use crate::schema::Dialect;

/// Milliseconds after which a row that was not renewed is deleted.
pub(crate) const LIFE: i64 = 30_000;

/// The database's time, because the clocks of machines differ.
const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
const DROP_GONE: &str = "DELETE FROM gateways WHERE seen_at < $1";
const RENEW: &str = "INSERT INTO gateways (id, fingerprint, since, seen_at) \
    VALUES ($1, $2, $3, $3) ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, \
    since = CASE WHEN gateways.fingerprint = excluded.fingerprint THEN gateways.since \
    ELSE excluded.since END, seen_at = excluded.seen_at";
const LIST: &str = "SELECT id, fingerprint, since FROM gateways ORDER BY since, id";
const FORGET: &str = "DELETE FROM gateways WHERE id = $1";

/// A gateway that uses this database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayMark {
    /// Random, created at startup.
    pub id: String,
    /// Fingerprint of the secret that seals tokens.
    pub fingerprint: String,
}

impl Store {
    /// Renews the row of a gateway. Returns the running gateways in the order in which they started
    /// to use their secrets; none if nothing has been stored yet.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn renew_gateway(&self, own: &GatewayMark) -> Result<Vec<GatewayMark>, StoreError> {
        if self.file().is_some() && self.identify()?.is_none() {
            return Ok(Vec::new());
        }
        let pool = self.pool().await?;
        within(async {
            let mut transaction = self.answer(pool.begin().await)?;
            let now = self.answer(read_time(&mut transaction, self.dialect).await)?;
            let drop_gone = sqlx::query(DROP_GONE).bind(now - LIFE);
            self.answer(drop_gone.execute(&mut *transaction).await)?;
            let renew = sqlx::query(RENEW).bind(own.id.clone()).bind(own.fingerprint.clone());
            self.answer(renew.bind(now).execute(&mut *transaction).await)?;
            let listed = self.answer(list(&mut transaction).await)?;
            self.answer(transaction.commit().await)?;
            Ok(listed)
        })
        .await
    }

    /// Removes the row of a gateway that shuts down.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn forget_gateway(&self, id: &str) -> Result<(), StoreError> {
        let pool = self.pool().await?;
        self.ask(sqlx::query(FORGET).bind(id.to_owned()).execute(&pool)).await?;
        Ok(())
    }
}

async fn read_time(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<i64> {
    match dialect {
        Dialect::Sqlite => Ok(now()),
        Dialect::Postgres => sqlx::query_scalar(NOW).fetch_one(connection).await,
    }
}

async fn list(connection: &mut AnyConnection) -> sqlx::Result<Vec<GatewayMark>> {
    let rows = sqlx::query(LIST).fetch_all(connection).await?;
    let mut gateways = Vec::with_capacity(rows.len());
    for row in rows {
        let fingerprint = row.try_get("fingerprint")?;
        gateways.push(GatewayMark { id: row.try_get("id")?, fingerprint });
    }
    Ok(gateways)
}
