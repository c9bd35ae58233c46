-- The form of an agent's list of tools: `full`, `search`, `auto`, or empty for the operator's setting.
ALTER TABLE agents ADD COLUMN tools TEXT NOT NULL DEFAULT '';
