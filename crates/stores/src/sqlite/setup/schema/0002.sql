-- What all chats of an owner used on a day, in UTC: days and microunits since the first. Kept when chats are deleted.
CREATE TABLE used (
    owner BLOB NOT NULL,
    day INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (owner, day)
) WITHOUT ROWID;
