-- Volumes: named directories of files. A name is unique within an account. A row
-- is removed with its volume.

CREATE TABLE volume (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (account, name)
) STRICT;
