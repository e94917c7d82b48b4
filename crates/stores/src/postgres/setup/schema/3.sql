-- Requests that nothing else remembers: what they asked for is gone, or known to nobody. Kept for a week.
CREATE TABLE asked (
    owner bytea NOT NULL,
    key bytea NOT NULL,
    request bytea NOT NULL,             -- What it asks for, in short.
    salt bytea NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX asked_at ON asked (at);
