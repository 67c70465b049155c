-- A request that is answered at most once. key is within account; request is a digest;
-- answer is NULL while done is 0, and where it was too long.

-- +goose Up
CREATE TABLE once (
    seq        INTEGER PRIMARY KEY, -- the order of insertion
    account    TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    request    BLOB    NOT NULL,
    done       INTEGER NOT NULL,
    answer     BLOB,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (account, key)
) STRICT;
CREATE INDEX once_expires ON once (expires_at);
