-- What all chats of an owner used on a day, in UTC: days and microunits since the first. Kept when chats are deleted.
-- Several rows a day, so that the chats of a busy owner do not wait for each other to count.
CREATE TABLE used (
    owner bytea NOT NULL,
    day bigint NOT NULL,
    shard smallint NOT NULL,
    tokens bigint NOT NULL,
    cost bigint NOT NULL,
    PRIMARY KEY (owner, day, shard)
) WITH (fillfactor = 50);
