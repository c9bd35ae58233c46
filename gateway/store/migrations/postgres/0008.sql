-- The chosen items of an agent as JSON; empty for all items of its servers.
ALTER TABLE agents ADD COLUMN items TEXT NOT NULL DEFAULT '';
