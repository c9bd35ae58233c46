//! Rows of agents, their assignments and their hidden tools within a change.

use sqlx::Row;

use super::{Change, Owner};
use crate::error::StoreError;
use crate::record::AgentRecord;

const INSERT_AGENT: &str = "INSERT INTO agents (id, organisation, name, name_key, owner_issuer, \
    owner_subject, version, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const UPDATE_AGENT: &str = "UPDATE agents SET name = $3, name_key = $4, version = $5, \
    updated_at = $6 WHERE id = $1 AND organisation = $2";
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
        let query = sqlx::query(sql).bind(self.organisation.clone()).bind(id.to_owned());
        let Some(row) = self.find(query).await? else { return Ok(None) };
        Ok(Some(self.store.answer(AgentRecord::from_row(&row))?))
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
        let query = sqlx::query(sql).bind(self.organisation.clone());
        let query = query.bind(owner.issuer.to_owned()).bind(owner.subject.to_owned());
        let query = query.bind(name_key.to_owned()).bind(but.to_owned());
        Ok(self.count(query).await? > 0)
    }

    /// Returns the number of agents of an owner, and of the organisation.
    pub async fn count_agents(&mut self, owner: Owner<'_>) -> Result<(usize, usize), StoreError> {
        let own = "SELECT COUNT(*) FROM agents WHERE organisation = $1 AND owner_issuer = $2 \
            AND owner_subject = $3";
        let query = sqlx::query(own).bind(self.organisation.clone());
        let query = query.bind(owner.issuer.to_owned()).bind(owner.subject.to_owned());
        let own = self.count(query).await?;
        let all = "SELECT COUNT(*) FROM agents WHERE organisation = $1";
        let all = self.count(sqlx::query(all).bind(self.organisation.clone())).await?;
        Ok((as_size(own), as_size(all)))
    }

    pub async fn insert_agent(&mut self, record: &AgentRecord) -> Result<(), StoreError> {
        let AgentRecord { id, name, name_key, owner_issuer, owner_subject, .. } = record.clone();
        let query = sqlx::query(INSERT_AGENT).bind(id).bind(self.organisation.clone());
        let query = query.bind(name).bind(name_key).bind(owner_issuer).bind(owner_subject);
        let query = query.bind(record.version).bind(record.created_at).bind(record.updated_at);
        self.run(query).await?;
        Ok(())
    }

    /// Updates the mutable columns of an agent.
    pub async fn update_agent(&mut self, record: &AgentRecord) -> Result<(), StoreError> {
        let AgentRecord { id, name, name_key, .. } = record.clone();
        let query = sqlx::query(UPDATE_AGENT).bind(id).bind(self.organisation.clone());
        let query = query.bind(name).bind(name_key).bind(record.version).bind(record.updated_at);
        self.run(query).await?;
        Ok(())
    }

    /// Deletes an agent and its assignments.
    pub async fn delete_agent(&mut self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agents WHERE organisation = $1 AND id = $2";
        let query = sqlx::query(sql).bind(self.organisation.clone()).bind(id.to_owned());
        self.run(query).await?;
        Ok(())
    }

    /// Returns the number of servers assigned to an agent.
    pub async fn count_assigned(&mut self, agent: &str) -> Result<usize, StoreError> {
        Ok(as_size(self.count(sqlx::query(COUNT_ASSIGNED).bind(agent.to_owned())).await?))
    }

    /// Assigns an integration to an agent. Returns `false` if it was assigned already.
    pub async fn assign(&mut self, agent: &str, integration: &str) -> Result<bool, StoreError> {
        let query = sqlx::query(ASSIGN).bind(agent.to_owned()).bind(integration.to_owned());
        let query = query.bind(self.organisation.clone()).bind(self.now);
        Ok(self.run(query).await? > 0)
    }

    /// Deletes an assignment. Returns `false` if there was none.
    pub async fn unassign(&mut self, agent: &str, integration: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM assignments WHERE organisation = $1 AND agent = $2 \
            AND integration = $3";
        let query = sqlx::query(sql).bind(self.organisation.clone());
        let query = query.bind(agent.to_owned()).bind(integration.to_owned());
        Ok(self.run(query).await? > 0)
    }

    /// Assigns a server of the operator to an agent.
    pub async fn assign_server(&mut self, agent: &str, server: &str) -> Result<(), StoreError> {
        let query = sqlx::query(ASSIGN_SERVER).bind(agent.to_owned()).bind(server.to_owned());
        self.run(query.bind(self.organisation.clone()).bind(self.now)).await?;
        Ok(())
    }

    /// Deletes the assignment of a server of the operator.
    pub async fn unassign_server(&mut self, agent: &str, server: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM agent_servers WHERE organisation = $1 AND agent = $2 \
            AND server = $3";
        let query = sqlx::query(sql).bind(self.organisation.clone());
        self.run(query.bind(agent.to_owned()).bind(server.to_owned())).await?;
        Ok(())
    }

    /// Returns whether an integration, or a server of the operator, is assigned to an agent.
    pub async fn is_assigned(&mut self, agent: &str, server: &str) -> Result<bool, StoreError> {
        let sql = "SELECT (SELECT COUNT(*) FROM assignments WHERE agent = $1 AND integration = $2) \
            + (SELECT COUNT(*) FROM agent_servers WHERE agent = $1 AND server = $2)";
        let query = sqlx::query(sql).bind(agent.to_owned()).bind(server.to_owned());
        Ok(self.count(query).await? > 0)
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
        let query = sqlx::query(sql).bind(agent.to_owned()).bind(server.to_owned());
        self.run(query.bind(tool.to_owned()).bind(self.organisation.clone())).await?;
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
        let query = sqlx::query(sql).bind(agent.to_owned()).bind(server.to_owned());
        let mut tools = Vec::new();
        for row in self.store.ask(query.fetch_all(&mut *self.transaction)).await? {
            tools.push(self.store.answer(row.try_get("tool"))?);
        }
        Ok(tools)
    }

    /// Returns the number of tools hidden from an agent.
    pub async fn count_hidden_tools(&mut self, agent: &str) -> Result<usize, StoreError> {
        let sql = "SELECT COUNT(*) FROM agent_hidden_tools WHERE agent = $1";
        Ok(as_size(self.count(sqlx::query(sql).bind(agent.to_owned())).await?))
    }
}

fn as_size(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
