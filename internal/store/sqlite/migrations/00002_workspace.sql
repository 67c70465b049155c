-- layers are the digests that a workspace lies on, as a JSON list, the lowest first.

-- +goose Up
CREATE TABLE workspace (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    task        TEXT,
    layers      TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL
) STRICT;
CREATE INDEX workspace_state ON workspace (state, created_at);
CREATE INDEX workspace_task ON workspace (task) WHERE task IS NOT NULL;
