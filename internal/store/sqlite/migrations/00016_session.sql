-- Conversations with agents, and their turns. key is unique among the sessions of an account that are not closed.
-- An owner writes only to its own sessions. doc is JSON of those who use them.

-- +goose Up
CREATE TABLE session (
    seq        INTEGER PRIMARY KEY, -- the order of insertion
    id         TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    owner      TEXT    NOT NULL REFERENCES owner (id),
    closed     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    doc        BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX session_key ON session (account, key) WHERE closed = 0;
CREATE INDEX session_account ON session (account, seq);

CREATE TABLE session_turn (
    session INTEGER NOT NULL REFERENCES session (seq) ON DELETE CASCADE,
    n       INTEGER NOT NULL,
    doc     BLOB    NOT NULL,
    PRIMARY KEY (session, n)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER session_owner_lives BEFORE UPDATE OF owner ON session
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
