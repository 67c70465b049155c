-- Work that is continued after the death of its daemon, and its steps. An owner writes only to its own
-- runs. paused is in microseconds. steps and size (bytes) bound the journal of a run. asked is a digest.
-- The steps of a run are removed when it ends.

-- +goose Up
CREATE TABLE run (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    kind        TEXT    NOT NULL,
    owner       TEXT    NOT NULL REFERENCES owner (id),
    lease_epoch INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    canceled_at INTEGER,
    ended_at    INTEGER,
    paused      INTEGER NOT NULL DEFAULT 0,
    steps       INTEGER NOT NULL DEFAULT 0,
    size        INTEGER NOT NULL DEFAULT 0,
    input       BLOB    NOT NULL,
    result      BLOB
) STRICT;
CREATE INDEX run_unfinished ON run (kind, seq) WHERE ended_at IS NULL;

CREATE TABLE run_step (
    seq        INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES run (seq) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    try        INTEGER NOT NULL,
    asked      BLOB    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    result     BLOB,
    UNIQUE (run, name)
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER run_owner_lives BEFORE UPDATE OF owner ON run
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
