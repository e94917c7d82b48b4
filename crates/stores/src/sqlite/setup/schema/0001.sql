-- Names that may hold any text are blobs: a text with a NUL in it is cut or compared short in too many places.
-- A chat is the 16 bytes of its id, so that their order is the order of ids. Times are milliseconds since 1970.

-- `number` is a chat's short name, for the table that grows fastest. None is used twice.
CREATE TABLE chats (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    agent BLOB NOT NULL,
    owner BLOB NOT NULL,
    title BLOB NOT NULL,
    searchable BLOB NOT NULL,
    status TEXT NOT NULL,
    archived INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    version INTEGER NOT NULL,
    step INTEGER NOT NULL,
    obeyed INTEGER NOT NULL,
    submitted INTEGER NOT NULL,
    unsettled INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    not_before INTEGER,
    body TEXT NOT NULL,
    key BLOB,                           -- The request that made it,
    request BLOB                        -- and what that asked for.
);
CREATE UNIQUE INDEX chats_key ON chats (owner, key) WHERE key IS NOT NULL;
CREATE INDEX chats_of_owner ON chats (owner, archived, touched, id);
CREATE INDEX chats_of_all ON chats (archived, touched, id);
CREATE INDEX chats_unsettled ON chats (id) WHERE unsettled = 1;

CREATE TABLE inbox (
    number INTEGER PRIMARY KEY,
    chat BLOB NOT NULL,
    seq INTEGER NOT NULL,
    aimed INTEGER NOT NULL,
    key BLOB,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    outcome TEXT
);
CREATE UNIQUE INDEX inbox_seq ON inbox (chat, seq);
CREATE UNIQUE INDEX inbox_key ON inbox (chat, key) WHERE key IS NOT NULL;

-- `gone` is the version of the commit that took the message back. Of those that are not gone, versions grow with ids.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    chat BLOB NOT NULL,
    id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    gone INTEGER,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX messages_there ON messages (chat, id) WHERE gone IS NULL;
CREATE INDEX messages_gone ON messages (chat, gone, id) WHERE gone IS NOT NULL;
CREATE INDEX messages_summaries ON messages (chat, id) WHERE kind = 'summary' AND gone IS NULL;

-- The words of what people and models said, for whoever looks for them.
CREATE TABLE spoken (
    number INTEGER PRIMARY KEY,
    chat BLOB NOT NULL,
    id INTEGER NOT NULL,
    words BLOB NOT NULL
);
CREATE INDEX spoken_in ON spoken (chat, id);

-- The journal: one log of all chats. A row is a bundle of appends, of whatever chats one transaction had. No other index:
-- its place is its address. Of two appends that tell the same deltas the later one counts.
CREATE TABLE drafts (
    place INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE attempts (
    number INTEGER PRIMARY KEY,
    chat BLOB NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX attempts_of_chat ON attempts (chat, number);

CREATE TABLE calls (
    chat BLOB NOT NULL,
    step INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    tool BLOB NOT NULL,
    effect TEXT NOT NULL,
    started INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    ended INTEGER,
    verdict TEXT,
    PRIMARY KEY (chat, step, ordinal)
) WITHOUT ROWID;

CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    chat BLOB NOT NULL,
    id BLOB NOT NULL,
    bytes BLOB NOT NULL
);
CREATE UNIQUE INDEX blobs_id ON blobs (chat, id);

CREATE TABLE tokens (
    hash BLOB PRIMARY KEY,
    name BLOB NOT NULL,
    owner BLOB NOT NULL,
    scopes TEXT NOT NULL,
    made INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER
) WITHOUT ROWID;
