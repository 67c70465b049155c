-- hash is that of the key itself, which is not kept. A key has no owner: it is of the
-- data directory, not of a run.
--
-- The account of what has one is read out of its doc: it never changes, and
-- statements that were stored ahead need not know it.

-- +goose Up
CREATE TABLE api_key (
    seq        INTEGER PRIMARY KEY, -- the order of insertion
    id         TEXT    NOT NULL UNIQUE,
    hash       TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    doc        TEXT    NOT NULL
) STRICT;
CREATE INDEX api_key_account ON api_key (account, created_at);

ALTER TABLE sandbox ADD COLUMN account TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL;
CREATE INDEX sandbox_account ON sandbox (account, created_at) WHERE account IS NOT NULL;
ALTER TABLE task ADD COLUMN account TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL;
CREATE INDEX task_account ON task (account, created_at) WHERE account IS NOT NULL;
ALTER TABLE snapshot ADD COLUMN account TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL;
CREATE INDEX snapshot_account ON snapshot (account, created_at) WHERE account IS NOT NULL;
