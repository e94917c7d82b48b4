-- Texts that may hold U+0000 (names, titles, keys) are bytes, because a text column refuses it.
-- A chat is named by its 16 bytes, most significant first, so that they sort as ids do.

CREATE TABLE workers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seen timestamptz NOT NULL,          -- When it last said that it is alive, by this database's clock.
    lasts interval NOT NULL,            -- How long that is believed.
    journalled bigint NOT NULL DEFAULT 0 -- How many batches it has journalled.
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE chats (
    id bytea PRIMARY KEY,
    no bigint GENERATED ALWAYS AS IDENTITY, -- A short name, for the table that grows fastest.
    agent bytea NOT NULL,
    owner bytea NOT NULL,
    title bytea NOT NULL,
    searchable bytea NOT NULL,          -- The title as it is compared: one letter case.
    status text NOT NULL,
    archived boolean NOT NULL,
    busy boolean NOT NULL,
    touched bigint NOT NULL,
    version bigint NOT NULL,
    step bigint NOT NULL,
    obeyed bigint NOT NULL,             -- The newest command that was taken out of the inbox…
    submitted bigint NOT NULL DEFAULT 0, -- …and the newest that was put in.
    not_before bigint,
    fence bigint NOT NULL DEFAULT 0,
    worker bigint,                      -- Who holds it. One who is not in `workers` holds nothing.
    body text NOT NULL,
    key bytea,                          -- The request that made it,
    request bytea                       -- and what that asked for.
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX chats_key ON chats (sha256(owner), sha256(key)) WHERE key IS NOT NULL;
CREATE INDEX chats_by_owner ON chats (owner, touched DESC, id DESC);
CREATE INDEX chats_by_time ON chats (touched DESC, id DESC);
CREATE INDEX chats_unsettled ON chats (id) WHERE busy OR submitted > obeyed;

CREATE TABLE inbox (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    aimed bigint NOT NULL,
    key bytea,
    body text NOT NULL,
    at bigint NOT NULL,
    outcome text,
    sender bigint NOT NULL,             -- Sender and ticket tell whether a submit
    ticket bigint NOT NULL,             -- whose answer was lost has happened.
    PRIMARY KEY (chat, seq)
);
CREATE UNIQUE INDEX inbox_keys ON inbox (chat, sha256(key)) WHERE key IS NOT NULL;

CREATE TABLE messages (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id bigint NOT NULL,
    version bigint NOT NULL,            -- The commit that said it…
    gone bigint,                        -- …and the one that took it back.
    kind text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (chat, id)
);
CREATE INDEX messages_there ON messages (chat, id) WHERE gone IS NULL;
CREATE INDEX messages_by_version ON messages (chat, version, id) WHERE gone IS NULL;
CREATE INDEX messages_gone ON messages (chat, gone) WHERE gone IS NOT NULL;
CREATE INDEX messages_summaries ON messages (chat, id) WHERE kind = 'summary' AND gone IS NULL;

-- The words of what people and models said, for whoever looks for them.
CREATE TABLE spoken (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id bigint NOT NULL,
    words bytea NOT NULL,
    PRIMARY KEY (chat, id)
);

-- One row is what one batch has of one chat: `len` deltas from number `first` on. Nothing is checked here: the index is
-- most of what a row costs. Whoever writes holds its row in `workers`, so to take chats from a worker by hand, delete that.
CREATE TABLE drafts (
    no bigint NOT NULL,
    step bigint NOT NULL,
    first bigint NOT NULL,
    len integer NOT NULL,
    body text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX drafts_by_chat ON drafts (no, first);

CREATE TABLE attempts (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (chat, number)
);

CREATE TABLE calls (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    step bigint NOT NULL,
    ordinal integer NOT NULL,
    tool bytea NOT NULL,
    effect text NOT NULL,
    started bigint NOT NULL,
    starts integer NOT NULL,
    ended bigint,
    verdict text,
    PRIMARY KEY (chat, step, ordinal)
);

CREATE TABLE blobs (
    chat bytea NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (chat, id)
);

CREATE TABLE tokens (
    hash bytea PRIMARY KEY,
    name bytea NOT NULL,
    owner bytea NOT NULL,
    scopes text NOT NULL,
    made bigint NOT NULL,
    expires bigint,
    revoked bigint
);
