-- Steps are counted too, and how long provider calls and tools took, in milliseconds.
ALTER TABLE used ADD steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE used ADD time_ms INTEGER NOT NULL DEFAULT 0;
