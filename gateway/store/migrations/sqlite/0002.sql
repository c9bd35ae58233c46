-- The last good lists of an integration, as of one of its versions. Nobody waits for them, and no
-- revision counts them.
CREATE TABLE known_lists (
    integration TEXT PRIMARY KEY REFERENCES integrations (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    read_at BIGINT NOT NULL,
    content BLOB NOT NULL
);
