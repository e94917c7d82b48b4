-- Sub-agents' chats: which chat they belong to, and whether that was deleted, so that they are to be deleted too.
ALTER TABLE chats ADD COLUMN parent bytea;
ALTER TABLE chats ADD COLUMN orphaned boolean NOT NULL DEFAULT false;
CREATE INDEX chats_of_parent ON chats (parent, touched DESC, id DESC) WHERE parent IS NOT NULL;
CREATE INDEX chats_orphaned ON chats (id) WHERE orphaned;

-- What all chats below a chat have used.
CREATE TABLE used_below (
    chat bytea PRIMARY KEY,
    steps bigint NOT NULL,
    time_ms bigint NOT NULL,
    alive_ms bigint NOT NULL,
    tokens bigint NOT NULL,
    cost bigint NOT NULL
);
