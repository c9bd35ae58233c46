//! The last good lists of integrations, for use after a restart. Storing them is not a change: it
//! takes no revision and notifies no gateway. They are deleted with their integration.

use crate::database::{Store, within_background};
use crate::error::Result;
use crate::value::{Record, record};

/// Maximum size of the lists of an integration, in bytes.
pub const MAX_LISTS: usize = 1 << 20;

/// Skips an integration that has another version or is gone.
const KEEP: &str = "INSERT INTO known_lists (integration, version, read_at, content) \
    SELECT id, version, CAST($4 AS BIGINT), $5 FROM integrations \
    WHERE organisation = $1 AND id = $2 AND version = $3 \
    ON CONFLICT (integration) DO UPDATE SET version = excluded.version, \
    read_at = excluded.read_at, content = excluded.content";
const FIND: &str = "SELECT known_lists.*, integrations.organisation \
    FROM known_lists JOIN integrations ON integrations.id = known_lists.integration \
    AND integrations.version = known_lists.version \
    WHERE integrations.id = $1 AND integrations.organisation = $2";

record! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KnownLists {
        pub organisation: String,
        /// The id of the integration.
        pub integration: String,
        /// The version of the integration that the lists belong to.
        pub version: i64,
        /// Milliseconds since 1970.
        pub read_at: i64,
        pub content: Vec<u8>,
    }
}

impl Store {
    /// Stores lists, all or none. Skips lists longer than [`MAX_LISTS`], and lists of integrations
    /// that have changed since.
    pub async fn keep_lists(&self, all: &[KnownLists]) -> Result<()> {
        let pool = self.pool().await?;
        within_background(async {
            let mut transaction = pool.begin().await?;
            for lists in all {
                if lists.content.len() > MAX_LISTS {
                    continue;
                }
                transaction.execute(KEEP, &lists.to_values()).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Finds the lists of an integration, if it has not changed since.
    pub async fn find_lists(
        &self,
        organisation: &str,
        integration: &str,
    ) -> Result<Option<KnownLists>> {
        let values = [integration.into(), organisation.into()];
        let found = self.rows(FIND, &values).await?;
        found.first().map(KnownLists::from_row).transpose()
    }
}
