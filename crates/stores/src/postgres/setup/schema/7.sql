-- How long turns were at work. Days before this was counted have none.
ALTER TABLE used ADD COLUMN alive_ms bigint NOT NULL DEFAULT 0;
