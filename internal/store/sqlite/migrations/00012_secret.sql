-- Secrets, and the records of their uses. account '' is the operator's. sealed is the encrypted
-- value; it is NULL unless the secret has a stored one. Uses have no references: they are kept
-- when their secret is removed. size is that of doc, as in egress.

-- +goose Up
CREATE TABLE secret (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    account    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    used_at    INTEGER,
    uses       INTEGER NOT NULL DEFAULT 0,
    sealed     BLOB,
    doc        TEXT    NOT NULL,
    UNIQUE (account, name)
) STRICT;
CREATE INDEX secret_account ON secret (account, seq);

CREATE TABLE secret_use (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT    NOT NULL,
    secret  TEXT    NOT NULL,
    sandbox TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    doc     TEXT    NOT NULL
) STRICT;
CREATE INDEX secret_use_account ON secret_use (account, seq, size);
CREATE INDEX secret_use_secret ON secret_use (account, secret, seq);
CREATE INDEX secret_use_refused ON secret_use (account, seq) WHERE refused = 1;
CREATE INDEX secret_use_at ON secret_use (at);
