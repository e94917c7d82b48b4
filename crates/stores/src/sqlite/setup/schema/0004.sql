-- Whoever begins a turn is asked how many of their own chats are at work, and is not kept waiting by those of others.
DROP INDEX chats_unsettled;
CREATE INDEX chats_unsettled ON chats (owner, id) WHERE unsettled = 1;
