-- A connected repository. name is unique among the live ones of an account. The account is
-- read out of doc, as elsewhere.

-- +goose Up
CREATE TABLE repository (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL,
    account     TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL
) STRICT;
CREATE INDEX repository_state ON repository (state, created_at);
CREATE INDEX repository_account ON repository (account, created_at) WHERE account IS NOT NULL;
CREATE UNIQUE INDEX repository_name ON repository (coalesce(account, ''), name) WHERE state <> 'removed';
