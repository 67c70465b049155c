-- The nodes of a fleet. An owner is a run of a node; owners of databases that were made before have none. beat_at is of the
-- clock of the database.

ALTER TABLE owner ADD COLUMN node TEXT;

CREATE TABLE node (
    id      TEXT    PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    owner   TEXT    NOT NULL REFERENCES owner (id),
    address TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    beat_at INTEGER NOT NULL,
    doc     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
