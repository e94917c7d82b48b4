-- Sub-agents' chats: which chat they belong to, and whether that was deleted, so that they are to be deleted too.
ALTER TABLE chats ADD COLUMN parent BLOB;
ALTER TABLE chats ADD COLUMN orphaned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX chats_of_parent ON chats (parent, archived, touched, id) WHERE parent IS NOT NULL;
CREATE INDEX chats_orphaned ON chats (id) WHERE orphaned = 1;

-- What all chats below a chat have used.
CREATE TABLE used_below (
    chat BLOB PRIMARY KEY,
    steps INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    alive_ms INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL
) WITHOUT ROWID;
