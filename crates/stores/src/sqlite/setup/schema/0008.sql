-- Internal chats answer one request of a client that keeps its conversation itself. No list shows them.
ALTER TABLE chats ADD COLUMN internal INTEGER NOT NULL DEFAULT 0;
DROP INDEX chats_of_owner;
DROP INDEX chats_of_all;
CREATE INDEX chats_of_owner ON chats (owner, internal, archived, touched, id);
CREATE INDEX chats_of_all ON chats (internal, archived, touched, id);
