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
-- Calls by series in steps of 5 minutes (300) and hours (3600). `kind` is `call`, `state` (samples
-- of a server's state, and those in which it was down) or the reason of a denial. `b0` to `b35`
-- count durations by bucket. Times are seconds since 1970. No revision counts them.
CREATE TABLE call_usage (
    step BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    organisation TEXT NOT NULL,
    server TEXT NOT NULL,
    name TEXT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    expires BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    b0 BIGINT NOT NULL, b1 BIGINT NOT NULL, b2 BIGINT NOT NULL, b3 BIGINT NOT NULL,
    b4 BIGINT NOT NULL, b5 BIGINT NOT NULL, b6 BIGINT NOT NULL, b7 BIGINT NOT NULL,
    b8 BIGINT NOT NULL, b9 BIGINT NOT NULL, b10 BIGINT NOT NULL, b11 BIGINT NOT NULL,
    b12 BIGINT NOT NULL, b13 BIGINT NOT NULL, b14 BIGINT NOT NULL, b15 BIGINT NOT NULL,
    b16 BIGINT NOT NULL, b17 BIGINT NOT NULL, b18 BIGINT NOT NULL, b19 BIGINT NOT NULL,
    b20 BIGINT NOT NULL, b21 BIGINT NOT NULL, b22 BIGINT NOT NULL, b23 BIGINT NOT NULL,
    b24 BIGINT NOT NULL, b25 BIGINT NOT NULL, b26 BIGINT NOT NULL, b27 BIGINT NOT NULL,
    b28 BIGINT NOT NULL, b29 BIGINT NOT NULL, b30 BIGINT NOT NULL, b31 BIGINT NOT NULL,
    b32 BIGINT NOT NULL, b33 BIGINT NOT NULL, b34 BIGINT NOT NULL, b35 BIGINT NOT NULL,
    PRIMARY KEY (step, at, kind, organisation, server, name, issuer, subject)
);
CREATE INDEX call_usage_by_expiry ON call_usage (expires);
