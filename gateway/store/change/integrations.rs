//! Rows of integrations within a change.

use super::Change;
use crate::database::within;
use crate::error::StoreError;
use crate::record::IntegrationRecord;
use crate::value::Row;

const INSERT_INTEGRATION: &str = "INSERT INTO integrations (id, organisation, slug, name, \
    name_key, kind, catalogue, url, auth, auth_header, sealed, enabled, version, created_at, \
    updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
const UPDATE_INTEGRATION: &str = "UPDATE integrations SET name = $3, name_key = $4, url = $5, \
    auth = $6, auth_header = $7, sealed = $8, enabled = $9, version = $10, updated_at = $11, \
    source = $12 \
    WHERE id = $1 AND organisation = $2";
const CARRY_LISTS: &str = "UPDATE known_lists SET version = $4 WHERE version = $3 AND \
    integration IN (SELECT id FROM integrations WHERE id = $1 AND organisation = $2)";

impl Change<'_> {
    pub async fn find_integration(
        &mut self,
        id: &str,
    ) -> Result<Option<IntegrationRecord>, StoreError> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 AND id = $2";
        let values = [(&self.organisation).into(), id.into()];
        let Some(row) = self.find(sql, &values).await? else { return Ok(None) };
        Ok(Some(IntegrationRecord::from_row(&row)?))
    }

    pub async fn list_integrations(&mut self) -> Result<Vec<IntegrationRecord>, StoreError> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 ORDER BY id";
        self.rows(sql).await?.iter().map(IntegrationRecord::from_row).collect()
    }

    /// Returns whether an integration of any organisation has this id.
    pub async fn is_integration_anywhere(&mut self, id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE id = $1";
        Ok(self.count(sql, &[id.into()]).await? > 0)
    }

    /// Returns whether another integration of the organisation has this name.
    pub async fn is_integration_name_taken(
        &mut self,
        name_key: &str,
        but: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE organisation = $1 AND name_key = $2 \
            AND id <> $3";
        let values = [(&self.organisation).into(), name_key.into(), but.into()];
        Ok(self.count(sql, &values).await? > 0)
    }

    pub async fn list_slugs(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT slug FROM integrations WHERE organisation = $1";
        self.rows(sql).await?.iter().map(Row::first).collect()
    }

    /// Runs a statement with the organisation as its parameter.
    async fn rows(&mut self, sql: &str) -> Result<Vec<Row>, StoreError> {
        within(self.transaction.list(sql, &[(&self.organisation).into()])).await
    }

    pub async fn insert_integration(
        &mut self,
        record: &IntegrationRecord,
    ) -> Result<(), StoreError> {
        let values = [
            (&record.id).into(),
            (&self.organisation).into(),
            (&record.slug).into(),
            (&record.name).into(),
            (&record.name_key).into(),
            (&record.kind).into(),
            (&record.catalogue).into(),
            (&record.url).into(),
            (&record.auth).into(),
            (&record.auth_header).into(),
            (&record.sealed).into(),
            i64::from(record.enabled).into(),
            record.version.into(),
            record.created_at.into(),
            record.updated_at.into(),
        ];
        self.run(INSERT_INTEGRATION, &values).await?;
        if record.source.is_some() {
            let sql = "UPDATE integrations SET source = $2 WHERE id = $1 AND organisation = $3";
            let organisation = (&self.organisation).into();
            let values = [(&record.id).into(), (&record.source).into(), organisation];
            self.run(sql, &values).await?;
        }
        Ok(())
    }

    /// Updates the mutable columns of an integration.
    pub async fn update_integration(
        &mut self,
        record: &IntegrationRecord,
    ) -> Result<(), StoreError> {
        let values = [
            (&record.id).into(),
            (&self.organisation).into(),
            (&record.name).into(),
            (&record.name_key).into(),
            (&record.url).into(),
            (&record.auth).into(),
            (&record.auth_header).into(),
            (&record.sealed).into(),
            i64::from(record.enabled).into(),
            record.version.into(),
            record.updated_at.into(),
            (&record.source).into(),
        ];
        self.run(UPDATE_INTEGRATION, &values).await?;
        Ok(())
    }

    /// Transfers the lists of an old version to a new version for the same server.
    pub async fn carry_lists(&mut self, id: &str, old: i64, new: i64) -> Result<(), StoreError> {
        let values = [id.into(), (&self.organisation).into(), old.into(), new.into()];
        self.run(CARRY_LISTS, &values).await?;
        Ok(())
    }

    /// Deletes an integration and its assignments.
    pub async fn delete_integration(&mut self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agent_hidden_tools WHERE organisation = $1 AND server = $2";
        let values = [(&self.organisation).into(), id.into()];
        self.run(sql, &values).await?;
        let sql = "DELETE FROM integrations WHERE organisation = $1 AND id = $2";
        self.run(sql, &values).await?;
        Ok(())
    }
}
