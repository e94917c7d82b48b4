-- Requests that nothing else remembers: what they asked for is gone, or known to nobody. Kept for a week.
CREATE TABLE asked (
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    request BLOB NOT NULL,              -- What it asks for, in short.
    salt BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX asked_at ON asked (at);
