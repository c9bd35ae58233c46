//! Calls of integrations by day. Counting them is not a change: it takes no revision. They are
//! deleted with their integration, or after [`KEPT_DAYS`]. Gateways add to each other's counts.

use crate::database::{Store, within, within_background};
use crate::error::StoreError;
use crate::value::Row;

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
    fn from_row(organisation: &str, integration: &str, row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            organisation: organisation.to_owned(),
            integration: integration.to_owned(),
            day: row.get("day")?,
            calls: row.get("calls")?,
            failed: row.get("failed")?,
        })
    }
}

impl Store {
    /// Adds counts, all or none, and drops counts that are too old on `today`.
    pub async fn add_calls(&self, all: &[DailyCalls], today: i64) -> Result<(), StoreError> {
        let pool = self.pool().await?;
        within_background(async {
            let mut transaction = pool.begin().await?;
            for counted in all {
                let DailyCalls { organisation, integration, day, calls, failed } = counted;
                let values = [
                    integration.into(),
                    organisation.into(),
                    (*day).into(),
                    (*calls).into(),
                    (*failed).into(),
                ];
                transaction.execute(ADD, &values).await?;
            }
            transaction.execute(DROP_OLD, &[(today - KEPT_DAYS).into()]).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the days after `day` on which an integration was called, in order.
    pub async fn list_calls(
        &self,
        (organisation, integration): (&str, &str),
        day: i64,
    ) -> Result<Vec<DailyCalls>, StoreError> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        let pool = self.pool().await?;
        let values = [integration.into(), organisation.into(), day.into()];
        let rows = within(pool.list(LIST, &values)).await?;
        rows.iter().map(|row| DailyCalls::from_row(organisation, integration, row)).collect()
    }
}
