-- name is that of a template. sandbox is no reference: a snapshot may outlive the
-- row of what it was taken of.

-- +goose Up
CREATE TABLE snapshot (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    name        TEXT,
    sandbox     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL
) STRICT;
CREATE INDEX snapshot_state ON snapshot (state, created_at);
CREATE INDEX snapshot_name ON snapshot (name) WHERE name IS NOT NULL;
CREATE INDEX snapshot_sandbox ON snapshot (sandbox);
