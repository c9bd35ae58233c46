-- The chosen items of an agent as JSON; empty for all items of its servers.
ALTER TABLE agents ADD COLUMN items TEXT NOT NULL DEFAULT '';
-- The name and the version, in the operator's registry, of the server that an integration was made from.
ALTER TABLE integrations ADD COLUMN source TEXT;
