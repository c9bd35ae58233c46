//! The gateways that share this database, each with a fingerprint of its secret, to detect
//! gateways with different secrets. Rows have no secret, address or name.

use crate::connection::Connection;
use crate::database::{Store, within};
use crate::error::Result;
use crate::value::{from_rows, record};
use lockgate_text::date::now_ms;

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

record! {
    /// A gateway that uses this database.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GatewayMark {
        /// Random, created at startup.
        pub id: String,
        /// Fingerprint of the secret that seals tokens.
        pub fingerprint: String,
    }
}

impl Store {
    /// Renews the row of a gateway. Returns the running gateways in the order in which they started
    /// to use their secrets; none if nothing has been stored yet.
    pub async fn renew_gateway(&self, own: &GatewayMark) -> Result<Vec<GatewayMark>> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        let pool = self.pool().await?;
        within(async {
            let mut transaction = pool.begin().await?;
            let now = read_time(&mut transaction).await?;
            transaction.execute(DROP_GONE, &[(now - LIFE).into()]).await?;
            let values = [(&own.id).into(), (&own.fingerprint).into(), now.into()];
            transaction.execute(RENEW, &values).await?;
            let listed = from_rows(&transaction.list(LIST, &[]).await?)?;
            transaction.commit().await?;
            Ok(listed)
        })
        .await
    }

    /// Removes the row of a gateway that shuts down.
    pub async fn forget_gateway(&self, id: &str) -> Result<()> {
        self.execute(FORGET, &[id.into()]).await.map(drop)
    }
}

pub(crate) async fn read_time(connection: &mut Connection) -> Result<i64> {
    if connection.is_postgres() { connection.scalar(NOW, &[]).await } else { Ok(now_ms()) }
}
