-- Grants of users at servers. Every change takes the next revision, and holds the row of the clock
-- until it is committed, so that changes are in one order. A grant that has ended has no tokens; its
-- row is deleted after a day.
CREATE TABLE grant_clock (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL
);
INSERT INTO grant_clock (id, revision) VALUES (1, 0);

CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    organisation TEXT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    server TEXT NOT NULL,
    revision BIGINT NOT NULL,
    state TEXT NOT NULL,
    about TEXT NOT NULL,
    sealed BYTEA,
    leased_until BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX grants_by_revision ON grants (revision);
CREATE INDEX grants_by_organisation ON grants (organisation, issuer, subject);

-- Sealed records of connecting accounts, by the digest of a name: registered clients, and
-- authorizations that await their response.
CREATE TABLE account_records (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX account_records_by_owner ON account_records (owner, expires_at);
CREATE INDEX account_records_by_end ON account_records (expires_at);
