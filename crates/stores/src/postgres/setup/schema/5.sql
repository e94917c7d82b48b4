-- Steps are counted too, and how long provider calls and tools took, in milliseconds.
ALTER TABLE used ADD steps bigint NOT NULL DEFAULT 0, ADD time_ms bigint NOT NULL DEFAULT 0;
