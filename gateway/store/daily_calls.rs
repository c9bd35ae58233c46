//! Calls of integrations by day. Counting them is not a change: it takes no revision. They are
//! deleted with their integration, or after [`KEPT_DAYS`]. Gateways add to each other's counts.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::database::{Store, within_background};
use crate::error::StoreError;

/// Number of days kept, including today.
pub const KEPT_DAYS: i64 = 90;

/// Skips an integration that is gone.
const ADD: &str = "INSERT INTO integration_calls (integration, day, calls, failed) \
    SELECT id, CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT) FROM integrations \
    WHERE id = $1 AND organisation = $2 \
    ON CONFLICT (integration, day) DO UPDATE SET calls = integration_calls.calls + excluded.calls, \
    failed = integration_calls.failed + excluded.failed";
const DROP_OLD: &str = "DELETE FROM integration_calls WHERE day <= $1";
const LIST: &str = "SELECT day, calls, failed FROM integration_calls \
    JOIN integrations ON integrations.id = integration_calls.integration \
    WHERE integrations.id = $1 AND integrations.organisation = $2 AND day > $3 ORDER BY day";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyCalls {
    pub organisation: String,
    /// The id of the integration.
    pub integration: String,
    /// Days since 1970, in UTC.
    pub day: i64,
    pub calls: i64,
    pub failed: i64,
}

impl DailyCalls {
    fn from_row(organisation: &str, integration: &str, row: &AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            organisation: organisation.to_owned(),
            integration: integration.to_owned(),
            day: row.try_get("day")?,
            calls: row.try_get("calls")?,
            failed: row.try_get("failed")?,
        })
    }
}

impl Store {
    /// Adds counts, all or none, and drops counts that are too old on `today`.
    pub async fn add_calls(&self, all: &[DailyCalls], today: i64) -> Result<(), StoreError> {
        let pool = self.pool().await?;
        within_background(async {
            let mut transaction = self.answer(pool.begin().await)?;
            for counted in all {
                let add = sqlx::query(ADD).bind(counted.integration.clone());
                let add = add.bind(counted.organisation.clone()).bind(counted.day);
                let add = add.bind(counted.calls).bind(counted.failed);
                self.answer(add.execute(&mut *transaction).await)?;
            }
            let drop_old = sqlx::query(DROP_OLD).bind(today - KEPT_DAYS);
            self.answer(drop_old.execute(&mut *transaction).await)?;
            match transaction.commit().await {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::of_commit(&error, self.file())),
            }
        })
        .await
    }

    /// Returns the days after `day` on which an integration was called, in order.
    pub async fn list_calls(
        &self,
        (organisation, integration): (&str, &str),
        day: i64,
    ) -> Result<Vec<DailyCalls>, StoreError> {
        if self.file().is_some() && self.identify()?.is_none() {
            return Ok(Vec::new());
        }
        let pool = self.pool().await?;
        let list = sqlx::query(LIST).bind(integration.to_owned()).bind(organisation.to_owned());
        let rows = self.ask(list.bind(day).fetch_all(&pool)).await?;
        let mut counted = Vec::with_capacity(rows.len());
        for row in &rows {
            counted.push(self.answer(DailyCalls::from_row(organisation, integration, row))?);
        }
        Ok(counted)
    }
}
