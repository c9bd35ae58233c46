-- Servers of the operator that are assigned to an agent, by slug.
CREATE TABLE agent_servers (
    agent TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    server TEXT NOT NULL,
    organisation TEXT NOT NULL REFERENCES organisations (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, server)
);
CREATE INDEX agent_servers_by_organisation ON agent_servers (organisation);

-- Tools that are switched off for an agent. The server is the id of an integration, or the slug of a
-- server of the operator: slugs have no underscore.
CREATE TABLE agent_hidden_tools (
    agent TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    organisation TEXT NOT NULL REFERENCES organisations (id),
    PRIMARY KEY (agent, server, tool)
);
CREATE INDEX agent_hidden_tools_by_organisation ON agent_hidden_tools (organisation);
