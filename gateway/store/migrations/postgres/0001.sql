-- One row: every change takes the next revision, and holds this row until it is committed, so that
-- changes are in one order and a reader who has seen a revision has seen all before it. Another
-- epoch: everything was put back or replaced, and no revision says anything of before.
CREATE TABLE clock (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL,
    epoch TEXT NOT NULL
);
INSERT INTO clock (id, revision, epoch)
    VALUES (1, 0, md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text));

CREATE TABLE organisations (
    id TEXT PRIMARY KEY,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX organisations_by_revision ON organisations (revision);

CREATE TABLE integrations (
    id TEXT PRIMARY KEY,
    organisation TEXT NOT NULL REFERENCES organisations (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    kind TEXT NOT NULL,
    catalogue TEXT,
    url TEXT NOT NULL,
    auth TEXT NOT NULL,
    auth_header TEXT,
    sealed BYTEA,
    enabled BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (organisation, slug),
    UNIQUE (organisation, name_key)
);

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    organisation TEXT NOT NULL REFERENCES organisations (id),
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    owner_issuer TEXT NOT NULL,
    owner_subject TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (organisation, owner_issuer, owner_subject, name_key)
);

CREATE TABLE assignments (
    agent TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    integration TEXT NOT NULL REFERENCES integrations (id) ON DELETE CASCADE,
    organisation TEXT NOT NULL REFERENCES organisations (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, integration)
);
CREATE INDEX assignments_by_integration ON assignments (integration);
CREATE INDEX assignments_by_organisation ON assignments (organisation);

-- What a change with an idempotency key answered, for whoever sends it again.
CREATE TABLE outcomes (
    organisation TEXT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    outcome TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, issuer, subject, key)
);
CREATE INDEX outcomes_by_end ON outcomes (expires_at);
