-- The time of the deletion in milliseconds since 1970, so that the row expires; 0 in rows of older gateways.
ALTER TABLE deleted_organisations ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;
