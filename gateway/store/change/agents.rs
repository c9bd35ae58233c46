//! Rows of agents, their assignments and their hidden tools within a change.

use super::{Change, Owner};
use crate::database::within;
use crate::error::StoreError;
use crate::record::AgentRecord;
use crate::value::{Row, Value};

const INSERT_AGENT: &str = "INSERT INTO agents (id, organisation, name, name_key, owner_issuer, \
    owner_subject, version, created_at, updated_at, tools, items) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const UPDATE_AGENT: &str = "UPDATE agents SET name = $3, name_key = $4, version = $5, \
    updated_at = $6, tools = $7, items = $8 WHERE id = $1 AND organisation = $2";
const ASSIGN: &str = "INSERT INTO assignments (agent, integration, organisation, created_at) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const ASSIGN_SERVER: &str = "INSERT INTO agent_servers (agent, server, organisation, created_at) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const COUNT_ASSIGNED: &str = "SELECT (SELECT COUNT(*) FROM assignments WHERE agent = $1) \
    + (SELECT COUNT(*) FROM agent_servers WHERE agent = $1)";
const HIDE_TOOL: &str = "INSERT INTO agent_hidden_tools (agent, server, tool, organisation) \
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

impl Change<'_> {
    pub async fn find_agent(&mut self, id: &str) -> Result<Option<AgentRecord>, StoreError> {
        let sql = "SELECT * FROM agents WHERE organisation = $1 AND id = $2";
        let values = [(&self.organisation).into(), id.into()];
        let Some(row) = self.find(sql, &values).await? else { return Ok(None) };
        Ok(Some(AgentRecord::from_row(&row)?))
    }

    /// Returns whether another agent of this owner has this name.
    pub async fn is_agent_name_taken(
        &mut self,
        owner: Owner<'_>,
        name_key: &str,
        but: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM agents WHERE organisation = $1 AND owner_issuer = $2 \
            AND owner_subject = $3 AND name_key = $4 AND id <> $5";
        let Owner { issuer, subject } = owner;
        let organisation = &self.organisation;
        let values =
            [organisation.into(), issuer.into(), subject.into(), name_key.into(), but.into()];
        Ok(self.count(sql, &values).await? > 0)
    }

    /// Returns the number of agents of an owner, and of the organisation.
    pub async fn count_agents(&mut self, owner: Owner<'_>) -> Result<(usize, usize), StoreError> {
        let own = "SELECT COUNT(*) FROM agents WHERE organisation = $1 AND owner_issuer = $2 \
            AND owner_subject = $3";
        let organisation = Value::from(&self.organisation);
        let values = [organisation.clone(), owner.issuer.into(), owner.subject.into()];
        let own = self.count(own, &values).await?;
        let all = "SELECT COUNT(*) FROM agents WHERE organisation = $1";
        let all = self.count(all, &[organisation]).await?;
        Ok((as_size(own), as_size(all)))
    }

    pub async fn insert_agent(&mut self, record: &AgentRecord) -> Result<(), StoreError> {
        let values = [
            (&record.id).into(),
            (&self.organisation).into(),
            (&record.name).into(),
            (&record.name_key).into(),
            (&record.owner_issuer).into(),
            (&record.owner_subject).into(),
            record.version.into(),
            record.created_at.into(),
            record.updated_at.into(),
            (&record.tools).into(),
            (&record.items).into(),
        ];
        self.run(INSERT_AGENT, &values).await?;
        Ok(())
    }

    /// Updates the mutable columns of an agent.
    pub async fn update_agent(&mut self, record: &AgentRecord) -> Result<(), StoreError> {
        let values = [
            (&record.id).into(),
            (&self.organisation).into(),
            (&record.name).into(),
            (&record.name_key).into(),
            record.version.into(),
            record.updated_at.into(),
            (&record.tools).into(),
            (&record.items).into(),
        ];
        self.run(UPDATE_AGENT, &values).await?;
        Ok(())
    }

    /// Deletes an agent and its assignments.
    pub async fn delete_agent(&mut self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agents WHERE organisation = $1 AND id = $2";
        let values = [(&self.organisation).into(), id.into()];
        self.run(sql, &values).await?;
        Ok(())
    }

    /// Returns the number of servers assigned to an agent.
    pub async fn count_assigned(&mut self, agent: &str) -> Result<usize, StoreError> {
        Ok(as_size(self.count(COUNT_ASSIGNED, &[agent.into()]).await?))
    }

    /// Assigns an integration to an agent. Returns `false` if it was assigned already.
    pub async fn assign(&mut self, agent: &str, integration: &str) -> Result<bool, StoreError> {
        let values =
            [agent.into(), integration.into(), (&self.organisation).into(), self.now.into()];
        Ok(self.run(ASSIGN, &values).await? > 0)
    }

    /// Deletes an assignment. Returns `false` if there was none.
    pub async fn unassign(&mut self, agent: &str, integration: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM assignments WHERE organisation = $1 AND agent = $2 \
            AND integration = $3";
        let values = [(&self.organisation).into(), agent.into(), integration.into()];
        Ok(self.run(sql, &values).await? > 0)
    }

    /// Assigns a server of the operator to an agent.
    pub async fn assign_server(&mut self, agent: &str, server: &str) -> Result<(), StoreError> {
        let values = [agent.into(), server.into(), (&self.organisation).into(), self.now.into()];
        self.run(ASSIGN_SERVER, &values).await?;
        Ok(())
    }

    /// Deletes the assignment of a server of the operator.
    pub async fn unassign_server(&mut self, agent: &str, server: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agent_servers WHERE organisation = $1 AND agent = $2 \
            AND server = $3";
        self.run(sql, &[(&self.organisation).into(), agent.into(), server.into()]).await?;
        Ok(())
    }

    /// Returns whether an integration, or a server of the operator, is assigned to an agent.
    pub async fn is_assigned(&mut self, agent: &str, server: &str) -> Result<bool, StoreError> {
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
    ) -> Result<(), StoreError> {
        let sql = if is_hidden {
            HIDE_TOOL
        } else {
            "DELETE FROM agent_hidden_tools WHERE agent = $1 AND server = $2 AND tool = $3 \
                AND organisation = $4"
        };
        let organisation = &self.organisation;
        let values = [agent.into(), server.into(), tool.into(), organisation.into()];
        self.run(sql, &values).await?;
        Ok(())
    }

    /// Returns the tools of a server that are hidden from an agent, sorted.
    pub async fn list_hidden_tools(
        &mut self,
        agent: &str,
        server: &str,
    ) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT tool FROM agent_hidden_tools WHERE agent = $1 AND server = $2 \
            ORDER BY tool";
        let values = [agent.into(), server.into()];
        let rows = within(self.transaction.list(sql, &values)).await?;
        rows.iter().map(Row::first).collect()
    }

    /// Returns the number of tools hidden from an agent.
    pub async fn count_hidden_tools(&mut self, agent: &str) -> Result<usize, StoreError> {
        let sql = "SELECT COUNT(*) FROM agent_hidden_tools WHERE agent = $1";
        Ok(as_size(self.count(sql, &[agent.into()]).await?))
    }
}

fn as_size(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
