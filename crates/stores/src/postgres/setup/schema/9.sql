-- Internal chats answer one request of a client that keeps its conversation itself. No list shows them.
ALTER TABLE chats ADD COLUMN internal boolean NOT NULL DEFAULT false;
DROP INDEX chats_by_owner;
DROP INDEX chats_by_time;
CREATE INDEX chats_by_owner ON chats (owner, internal, touched DESC, id DESC);
CREATE INDEX chats_by_time ON chats (internal, touched DESC, id DESC);
