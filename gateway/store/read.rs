//! Reads what is stored: all of every organisation that has changed since a revision, as of one
//! moment.

use std::collections::HashMap;

use sqlx::any::AnyRow;
use sqlx::{Any, Row, Transaction};

use crate::database::{Store, within};
use crate::error::StoreError;
use crate::record::{AgentRecord, AssignmentRecord, IntegrationRecord, OrganisationRecords};
use crate::schema::Dialect;

const ORGANISATIONS: &str =
    "SELECT id, revision, created_at FROM organisations WHERE revision > $1 ORDER BY revision";
const INTEGRATIONS: &str = "SELECT integrations.* FROM integrations \
    JOIN organisations ON organisations.id = integrations.organisation \
    WHERE organisations.revision > $1 ORDER BY integrations.created_at, integrations.id";
const AGENTS: &str = "SELECT agents.* FROM agents \
    JOIN organisations ON organisations.id = agents.organisation \
    WHERE organisations.revision > $1 ORDER BY agents.created_at, agents.id";
const ASSIGNMENTS: &str = "SELECT assignments.organisation, assignments.agent, \
    assignments.integration FROM assignments \
    JOIN organisations ON organisations.id = assignments.organisation \
    WHERE organisations.revision > $1 ORDER BY assignments.created_at, assignments.integration";

impl Store {
    /// Every organisation whose last change has a greater revision, in the order of those.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn load_changed(&self, since: i64) -> Result<Vec<OrganisationRecords>, StoreError> {
        let Some(pool) = self.existing_pool().await? else { return Ok(Vec::new()) };
        within(async {
            // What one moment is, is said differently.
            let begin = match self.dialect {
                Dialect::Sqlite => "BEGIN",
                Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            };
            let begun = pool.begin_with(begin).await;
            let mut transaction = begun.map_err(|error| self.error(&error))?;
            let read = read_changed(&mut transaction, since).await;
            let records = read.map_err(|error| self.error(&error))?;
            transaction.rollback().await.map_err(|error| self.error(&error))?;
            Ok(records)
        })
        .await
    }
}

async fn read_changed(
    transaction: &mut Transaction<'_, Any>,
    since: i64,
) -> sqlx::Result<Vec<OrganisationRecords>> {
    let mut organisations = Vec::new();
    let mut places = HashMap::new();
    for row in rows(transaction, ORGANISATIONS, since).await? {
        let id: String = row.try_get("id")?;
        places.insert(id.clone(), organisations.len());
        organisations.push(OrganisationRecords {
            id,
            revision: row.try_get("revision")?,
            created_at: row.try_get("created_at")?,
            ..OrganisationRecords::default()
        });
    }
    if organisations.is_empty() {
        return Ok(organisations);
    }
    for row in rows(transaction, INTEGRATIONS, since).await? {
        let record = IntegrationRecord::from_row(&row)?;
        if let Some(place) = places.get(&record.organisation) {
            organisations[*place].integrations.push(record);
        }
    }
    for row in rows(transaction, AGENTS, since).await? {
        let record = AgentRecord::from_row(&row)?;
        if let Some(place) = places.get(&record.organisation) {
            organisations[*place].agents.push(record);
        }
    }
    for row in rows(transaction, ASSIGNMENTS, since).await? {
        if let Some(place) = places.get(&row.try_get::<String, _>("organisation")?) {
            let agent = row.try_get("agent")?;
            let integration = row.try_get("integration")?;
            organisations[*place].assignments.push(AssignmentRecord { agent, integration });
        }
    }
    Ok(organisations)
}

async fn rows(
    transaction: &mut Transaction<'_, Any>,
    sql: &'static str,
    since: i64,
) -> sqlx::Result<Vec<AnyRow>> {
    sqlx::query(sql).bind(since).fetch_all(&mut **transaction).await
}
