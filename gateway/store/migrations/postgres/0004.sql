-- Gateways that use this database, each with a fingerprint of the `secret` that seals its tokens. A
-- gateway renews its row while it runs. Not part of any revision. Times are the database's.
CREATE TABLE gateways (
    id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    since BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
