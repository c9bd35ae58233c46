//! Rows of integrations within a change.

use super::Change;

use crate::error::StoreError;
use crate::record::IntegrationRecord;

const INSERT_INTEGRATION: &str = "INSERT INTO integrations (id, organisation, slug, name, \
    name_key, kind, catalogue, url, auth, auth_header, sealed, enabled, version, created_at, \
    updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
const UPDATE_INTEGRATION: &str = "UPDATE integrations SET name = $3, name_key = $4, url = $5, \
    auth = $6, auth_header = $7, sealed = $8, enabled = $9, version = $10, updated_at = $11 \
    WHERE id = $1 AND organisation = $2";
const CARRY_LISTS: &str = "UPDATE known_lists SET version = $4 WHERE version = $3 AND \
    integration IN (SELECT id FROM integrations WHERE id = $1 AND organisation = $2)";

impl Change<'_> {
    pub async fn find_integration(
        &mut self,
        id: &str,
    ) -> Result<Option<IntegrationRecord>, StoreError> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 AND id = $2";
        let query = sqlx::query(sql).bind(self.organisation.clone()).bind(id.to_owned());
        let Some(row) = self.find(query).await? else { return Ok(None) };
        Ok(Some(self.store.answer(IntegrationRecord::from_row(&row))?))
    }

    pub async fn list_integrations(&mut self) -> Result<Vec<IntegrationRecord>, StoreError> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 ORDER BY id";
        let query = sqlx::query(sql).bind(self.organisation.clone());
        let mut records = Vec::new();
        for row in self.store.ask(query.fetch_all(&mut *self.transaction)).await? {
            records.push(self.store.answer(IntegrationRecord::from_row(&row))?);
        }
        Ok(records)
    }

    /// Returns whether an integration of any organisation has this id.
    pub async fn is_integration_anywhere(&mut self, id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE id = $1";
        Ok(self.count(sqlx::query(sql).bind(id.to_owned())).await? > 0)
    }

    /// Returns whether another integration of the organisation has this name.
    pub async fn is_integration_name_taken(
        &mut self,
        name_key: &str,
        but: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE organisation = $1 AND name_key = $2 \
            AND id <> $3";
        let query = sqlx::query(sql).bind(self.organisation.clone());
        let query = query.bind(name_key.to_owned()).bind(but.to_owned());
        Ok(self.count(query).await? > 0)
    }

    pub async fn list_slugs(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT slug FROM integrations WHERE organisation = $1";
        let query = sqlx::query_scalar(sql).bind(self.organisation.clone());
        self.store.ask(query.fetch_all(&mut *self.transaction)).await
    }

    pub async fn insert_integration(
        &mut self,
        record: &IntegrationRecord,
    ) -> Result<(), StoreError> {
        let IntegrationRecord { id, slug, name, name_key, kind, catalogue, url, .. } =
            record.clone();
        let IntegrationRecord { auth, auth_header, sealed, .. } = record.clone();
        let query = sqlx::query(INSERT_INTEGRATION).bind(id).bind(self.organisation.clone());
        let query = query.bind(slug).bind(name).bind(name_key).bind(kind).bind(catalogue);
        let query = query.bind(url).bind(auth).bind(auth_header).bind(sealed);
        let query = query.bind(i64::from(record.enabled)).bind(record.version);
        self.run(query.bind(record.created_at).bind(record.updated_at)).await?;
        Ok(())
    }

    /// Updates the mutable columns of an integration.
    pub async fn update_integration(
        &mut self,
        record: &IntegrationRecord,
    ) -> Result<(), StoreError> {
        let IntegrationRecord { id, name, name_key, url, auth, auth_header, sealed, .. } =
            record.clone();
        let query = sqlx::query(UPDATE_INTEGRATION).bind(id).bind(self.organisation.clone());
        let query = query.bind(name).bind(name_key).bind(url).bind(auth).bind(auth_header);
        let query = query.bind(sealed).bind(i64::from(record.enabled));
        self.run(query.bind(record.version).bind(record.updated_at)).await?;
        Ok(())
    }

    /// Transfers the lists of an old version to a new version for the same server.
    pub async fn carry_lists(&mut self, id: &str, old: i64, new: i64) -> Result<(), StoreError> {
        let query = sqlx::query(CARRY_LISTS).bind(id.to_owned()).bind(self.organisation.clone());
        self.run(query.bind(old).bind(new)).await?;
        Ok(())
    }

    /// Deletes an integration and its assignments.
    pub async fn delete_integration(&mut self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agent_hidden_tools WHERE organisation = $1 AND server = $2";
        let query = sqlx::query(sql).bind(self.organisation.clone()).bind(id.to_owned());
        self.run(query).await?;
        let sql = "DELETE FROM integrations WHERE organisation = $1 AND id = $2";
        let query = sqlx::query(sql).bind(self.organisation.clone()).bind(id.to_owned());
        self.run(query).await?;
        Ok(())
    }
}
