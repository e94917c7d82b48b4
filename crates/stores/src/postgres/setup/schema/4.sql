-- What workers have journalled lately. A row is a bundle: what one batch has of some chats, whose short names are `nos`. Now and
-- then a worker files what it has here into `drafts`, by chat. So a delta costs no index of its own while people watch, and
-- what is looked through for one chat is never long. Whoever takes a chat from a worker files what that has left behind.
CREATE TABLE tail (
    worker bigint NOT NULL,
    batch bigint NOT NULL,
    nos bigint[] NOT NULL,
    body text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX tail_by_batch ON tail (worker, batch);
ALTER TABLE workers ADD filed bigint NOT NULL DEFAULT 0; -- Up to which batch nothing of it is in `tail`, at least.
CREATE UNIQUE INDEX chats_by_no ON chats (no);
