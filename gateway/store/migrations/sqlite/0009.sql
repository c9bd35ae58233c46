-- Organisations whose members connect no accounts until the organisation is created again.
CREATE TABLE deleted_organisations (
    id TEXT PRIMARY KEY
);
