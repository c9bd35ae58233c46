//! Rows of integrations, agents, their assignments and their hidden tools within a change.

use super::{Change, PrincipalKey};
use crate::database::within;
use crate::error::Result;
use crate::value::{Agent, IntegrationRecord, Record, Row, Value, from_rows};

const ASSIGN: &str = "INSERT INTO assignments (agent, integration, organisation, created_at) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const ASSIGN_SERVER: &str = "INSERT INTO agent_servers (agent, server, organisation, created_at) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const COUNT_ASSIGNED: &str = "SELECT (SELECT COUNT(*) FROM assignments WHERE agent = $1) \
    + (SELECT COUNT(*) FROM agent_servers WHERE agent = $1)";
const HIDE_TOOL: &str = "INSERT INTO agent_hidden_tools (agent, server, tool, organisation) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const CARRY_LISTS: &str = "UPDATE known_lists SET version = $4 WHERE version = $3 AND \
    integration IN (SELECT id FROM integrations WHERE id = $1 AND organisation = $2)";

impl Change<'_> {
    pub async fn find_agent(&mut self, id: &str) -> Result<Option<Agent>> {
        let sql = "SELECT * FROM agents WHERE organisation = $1 AND id = $2";
        let row = self.find(sql, &[(&self.organisation).into(), id.into()]).await?;
        row.as_ref().map(Agent::from_row).transpose()
    }

    /// Returns whether another agent of the same owner has the same name.
    pub async fn is_agent_name_taken(&mut self, record: &Agent) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM agents WHERE organisation = $1 AND owner_issuer = $2 \
            AND owner_subject = $3 AND name_key = $4 AND id <> $5";
        let Agent { owner_issuer, owner_subject, name_key, id, .. } = record;
        let texts = [&self.organisation, owner_issuer, owner_subject, name_key, id];
        Ok(self.count(sql, &texts.map(Value::from)).await? > 0)
    }

    /// Returns the number of agents of an owner, and of the organisation.
    pub async fn count_agents(&mut self, owner: &PrincipalKey) -> Result<(usize, usize)> {
        let own = "SELECT COUNT(*) FROM agents WHERE organisation = $1 AND owner_issuer = $2 \
            AND owner_subject = $3";
        let organisation = Value::from(&self.organisation);
        let values = [organisation.clone(), (&owner.issuer).into(), (&owner.subject).into()];
        let own = self.count(own, &values).await?;
        let all = "SELECT COUNT(*) FROM agents WHERE organisation = $1";
        let all = self.count(all, &[organisation]).await?;
        Ok((as_size(own), as_size(all)))
    }

    pub async fn insert_agent(&mut self, record: &Agent) -> Result<()> {
        self.insert("agents", record).await
    }

    /// Writes all columns of a record that was read in this change. Callers keep
    /// the owner and the time of creation.
    pub async fn update_agent(&mut self, record: &Agent) -> Result<()> {
        self.update("agents", record).await
    }

    /// Deletes an agent and its assignments.
    pub async fn delete_agent(&mut self, id: &str) -> Result<()> {
        let sql = "DELETE FROM agents WHERE organisation = $1 AND id = $2";
        let values = [(&self.organisation).into(), id.into()];
        self.run(sql, &values).await.map(drop)
    }

    /// Returns the number of servers assigned to an agent.
    pub async fn count_assigned(&mut self, agent: &str) -> Result<usize> {
        Ok(as_size(self.count(COUNT_ASSIGNED, &[agent.into()]).await?))
    }

    /// Assigns an integration, or a server of the operator, to an agent. Returns `false` if it was
    /// assigned already.
    pub async fn assign(&mut self, agent: &str, server: &str) -> Result<bool> {
        let sql = if is_integration(server) { ASSIGN } else { ASSIGN_SERVER };
        let values = [agent.into(), server.into(), (&self.organisation).into(), self.now.into()];
        Ok(self.run(sql, &values).await? > 0)
    }

    /// Deletes an assignment. Returns `false` if there was none.
    pub async fn unassign(&mut self, agent: &str, server: &str) -> Result<bool> {
        let sql = if is_integration(server) {
            "DELETE FROM assignments WHERE organisation = $1 AND agent = $2 AND integration = $3"
        } else {
            "DELETE FROM agent_servers WHERE organisation = $1 AND agent = $2 AND server = $3"
        };
        let values = [(&self.organisation).into(), agent.into(), server.into()];
        Ok(self.run(sql, &values).await? > 0)
    }

    /// Returns whether an integration, or a server of the operator, is assigned to an agent.
    pub async fn is_assigned(&mut self, agent: &str, server: &str) -> Result<bool> {
        let sql = "SELECT (SELECT COUNT(*) FROM assignments WHERE agent = $1 AND integration = $2) \
            + (SELECT COUNT(*) FROM agent_servers WHERE agent = $1 AND server = $2)";
        Ok(self.count(sql, &[agent.into(), server.into()]).await? > 0)
    }

    /// Hides a tool of a server from an agent, or shows it again.
    pub async fn set_tool_hidden(
        &mut self,
        agent: &str,
        server: &str,
        tool: &str,
        is_hidden: bool,
    ) -> Result<()> {
        let sql = if is_hidden {
            HIDE_TOOL
        } else {
            "DELETE FROM agent_hidden_tools WHERE agent = $1 AND server = $2 AND tool = $3 \
                AND organisation = $4"
        };
        let organisation = &self.organisation;
        let values = [agent.into(), server.into(), tool.into(), organisation.into()];
        self.run(sql, &values).await.map(drop)
    }

    /// Returns the tools of a server that are hidden from an agent, sorted.
    pub async fn list_hidden_tools(&mut self, agent: &str, server: &str) -> Result<Vec<String>> {
        let sql = "SELECT tool FROM agent_hidden_tools WHERE agent = $1 AND server = $2 \
            ORDER BY tool";
        let values = [agent.into(), server.into()];
        let rows = within(self.transaction.list(sql, &values)).await?;
        rows.iter().map(Row::first).collect()
    }

    /// Returns the number of tools hidden from an agent.
    pub async fn count_hidden_tools(&mut self, agent: &str) -> Result<usize> {
        let sql = "SELECT COUNT(*) FROM agent_hidden_tools WHERE agent = $1";
        Ok(as_size(self.count(sql, &[agent.into()]).await?))
    }

    pub async fn find_integration(&mut self, id: &str) -> Result<Option<IntegrationRecord>> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 AND id = $2";
        let row = self.find(sql, &[(&self.organisation).into(), id.into()]).await?;
        row.as_ref().map(IntegrationRecord::from_row).transpose()
    }

    pub async fn list_integrations(&mut self) -> Result<Vec<IntegrationRecord>> {
        let sql = "SELECT * FROM integrations WHERE organisation = $1 ORDER BY id";
        from_rows(&self.rows(sql).await?)
    }

    /// Returns whether an integration of any organisation has this id.
    pub async fn is_integration_anywhere(&mut self, id: &str) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE id = $1";
        Ok(self.count(sql, &[id.into()]).await? > 0)
    }

    /// Returns whether another integration of the organisation has the same name.
    pub async fn is_integration_name_taken(&mut self, record: &IntegrationRecord) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM integrations WHERE organisation = $1 AND name_key = $2 \
            AND id <> $3";
        let texts = [&self.organisation, &record.name_key, &record.id];
        Ok(self.count(sql, &texts.map(Value::from)).await? > 0)
    }

    pub async fn list_slugs(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT slug FROM integrations WHERE organisation = $1";
        self.rows(sql).await?.iter().map(Row::first).collect()
    }

    /// Runs a statement with the organisation as its parameter.
    async fn rows(&mut self, sql: &str) -> Result<Vec<Row>> {
        within(self.transaction.list(sql, &[(&self.organisation).into()])).await
    }

    pub async fn insert_integration(&mut self, record: &IntegrationRecord) -> Result<()> {
        self.insert("integrations", record).await
    }

    /// Writes all columns of a record that was read in this change. Callers keep
    /// the slug, the kind, the entry of the catalogue and the time of creation.
    pub async fn update_integration(&mut self, record: &IntegrationRecord) -> Result<()> {
        self.update("integrations", record).await
    }

    /// Transfers the lists of an old version to a new version for the same server.
    pub async fn carry_lists(&mut self, id: &str, old: i64, new: i64) -> Result<()> {
        let values = [id.into(), (&self.organisation).into(), old.into(), new.into()];
        self.run(CARRY_LISTS, &values).await.map(drop)
    }

    /// Deletes an integration and its assignments.
    pub async fn delete_integration(&mut self, id: &str) -> Result<()> {
        let sql = "DELETE FROM agent_hidden_tools WHERE organisation = $1 AND server = $2";
        let values = [(&self.organisation).into(), id.into()];
        self.run(sql, &values).await?;
        let sql = "DELETE FROM integrations WHERE organisation = $1 AND id = $2";
        self.run(sql, &values).await.map(drop)
    }
}

/// Returns whether a server of an agent is an integration: slugs have no underscore.
pub fn is_integration(server: &str) -> bool {
    server.starts_with("int_")
}

fn as_size(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
