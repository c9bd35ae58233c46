-- Calls of an integration's tools by day (UTC; days since 1970). No revision counts them.
CREATE TABLE integration_calls (
    integration TEXT NOT NULL REFERENCES integrations (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    PRIMARY KEY (integration, day)
);
CREATE INDEX integration_calls_by_day ON integration_calls (day);
