-- Instants are microseconds since 1970 in UTC; NULL is the zero time. doc is the
-- row as JSON (package rowjson); the columns hold what is filtered, sorted or
-- guarded, and win over doc. lease_epoch counts the owners a row has had.

-- +goose Up
CREATE TABLE owner (
    id         TEXT    NOT NULL PRIMARY KEY,
    host       TEXT    NOT NULL,
    lock_path  TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;

CREATE TABLE sandbox (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    task        TEXT,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL
) STRICT;
CREATE INDEX sandbox_created ON sandbox (created_at, seq);
CREATE INDEX sandbox_state ON sandbox (state, created_at);
CREATE INDEX sandbox_task ON sandbox (task) WHERE task IS NOT NULL;

CREATE TABLE exec (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    sandbox     TEXT    NOT NULL REFERENCES sandbox (id),
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL
) STRICT;
CREATE INDEX exec_sandbox ON exec (sandbox, started_at);
CREATE INDEX exec_state ON exec (state, started_at);

CREATE TABLE task (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL
) STRICT;
CREATE INDEX task_created ON task (created_at, seq);
CREATE INDEX task_state ON task (state, created_at);

CREATE TABLE attempt (
    task        TEXT    NOT NULL REFERENCES task (id),
    n           INTEGER NOT NULL,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    sandbox     TEXT,
    started_at  INTEGER,
    ended_at    INTEGER,
    stdout_path TEXT    NOT NULL,
    stderr_path TEXT    NOT NULL,
    doc         TEXT    NOT NULL,
    PRIMARY KEY (task, n)
) STRICT;

-- parent is the task that the stream's sandbox works for, if any.
CREATE TABLE event (
    stream_kind TEXT    NOT NULL,
    stream_id   TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    parent      TEXT,
    at          INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    data        BLOB,
    PRIMARY KEY (stream_kind, stream_id, seq)
) STRICT, WITHOUT ROWID;
