-- The schema of a database: version 1.
--
-- Instants are microseconds since 1970 in UTC; NULL is the zero time. doc is the row as JSON
-- (package rowjson); the columns hold what is filtered, sorted or guarded, and win over doc. seq
-- is the order of insertion. Account '' or NULL is the operator's.
--
-- Columns that are generated from doc never change, and statements that are stored ahead of the
-- database need not know them.
--
-- Files of this version exist: to change the schema, add a file to this directory and to that of Postgres instead
-- of editing a table here. A test compares the fingerprint of the tables.

-- Owners: runs of daemons. Everything that exists has its owner, the owner's host, and
-- lease_epoch, which counts the owners that a row has had. beat_at is when an owner last renewed
-- its lease.

CREATE TABLE owner (
    id         TEXT    NOT NULL PRIMARY KEY,
    host       TEXT    NOT NULL,
    lock_path  TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    beat_at    INTEGER
) STRICT;

-- Sandboxes and their commands. provision is the task of a caller's own that a sandbox was made
-- for, and workspace what it has at /workspace.

CREATE TABLE sandbox (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    task        TEXT,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL,
    account     TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL,
    provision   TEXT GENERATED ALWAYS AS (json_extract(doc, '$.provision.taskId')) VIRTUAL,
    workspace   TEXT GENERATED ALWAYS AS (json_extract(doc, '$.workspace')) VIRTUAL
) STRICT;
CREATE INDEX sandbox_created   ON sandbox (created_at, seq);
CREATE INDEX sandbox_state     ON sandbox (state, created_at);
CREATE INDEX sandbox_task      ON sandbox (task) WHERE task IS NOT NULL;
CREATE INDEX sandbox_account   ON sandbox (account, created_at) WHERE account IS NOT NULL;
CREATE INDEX sandbox_provision ON sandbox (provision, account, created_at) WHERE provision IS NOT NULL;
CREATE INDEX sandbox_workspace ON sandbox (workspace, created_at) WHERE workspace IS NOT NULL;

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
CREATE INDEX exec_state   ON exec (state, started_at);

-- Tasks, their attempts, and the sums of tasks whose rows were removed: one row for each account
-- and day of creation (days since 1970 in UTC), written by package tally.

CREATE TABLE task (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL,
    account     TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL
) STRICT;
CREATE INDEX task_created ON task (created_at, seq);
CREATE INDEX task_state   ON task (state, created_at);
CREATE INDEX task_account ON task (account, created_at) WHERE account IS NOT NULL;

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

CREATE TABLE task_tally (
    account TEXT    NOT NULL,
    day     INTEGER NOT NULL,
    sums    BLOB    NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;

-- Runs: work that another daemon continues if its own died, and its steps, which are removed when
-- it ends. paused is in microseconds. steps and size (bytes) bound the journal of a run. asked is
-- a digest.

CREATE TABLE run (
    seq         INTEGER PRIMARY KEY,
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

-- Sessions: conversations with agents, and their turns. key is unique among the sessions of an
-- account that are not closed. doc is JSON of those who use them.

CREATE TABLE session (
    seq        INTEGER PRIMARY KEY,
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

-- Workspaces. layers are the digests that a workspace lies on, as a JSON list, the lowest first.

CREATE TABLE workspace (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    task        TEXT,
    layers      TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL,
    account     TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL,
    name        TEXT GENERATED ALWAYS AS (json_extract(doc, '$.name')) VIRTUAL
) STRICT;
CREATE INDEX workspace_state     ON workspace (state, created_at);
CREATE INDEX workspace_task      ON workspace (task) WHERE task IS NOT NULL;
CREATE INDEX workspace_live_task ON workspace (task) WHERE state <> 'removed';
CREATE INDEX workspace_account   ON workspace (account, created_at) WHERE account IS NOT NULL;
CREATE INDEX workspace_name      ON workspace (name) WHERE name IS NOT NULL;

-- Snapshots. name is that of a template. sandbox is no reference: a snapshot may outlive the row
-- of its sandbox.

CREATE TABLE snapshot (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    REFERENCES owner (id),
    host        TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    name        TEXT,
    sandbox     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    doc         TEXT    NOT NULL,
    account     TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL
) STRICT;
CREATE INDEX snapshot_state   ON snapshot (state, created_at);
CREATE INDEX snapshot_name    ON snapshot (name) WHERE name IS NOT NULL;
CREATE INDEX snapshot_sandbox ON snapshot (sandbox);
CREATE INDEX snapshot_account ON snapshot (account, created_at) WHERE account IS NOT NULL;

-- Connected repositories. name is unique among those of an account that are not removed.

CREATE TABLE repository (
    seq         INTEGER PRIMARY KEY,
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
CREATE INDEX repository_state   ON repository (state, created_at);
CREATE INDEX repository_account ON repository (account, created_at) WHERE account IS NOT NULL;
CREATE UNIQUE INDEX repository_name ON repository (coalesce(account, ''), name) WHERE state <> 'removed';

-- No row changes to an owner that has ended, so an owner that was declared dead cannot take back
-- what another one took over. A run and a session are written by their own owner only.

CREATE TRIGGER sandbox_owner_lives BEFORE UPDATE OF owner ON sandbox
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

CREATE TRIGGER task_owner_lives BEFORE UPDATE OF owner ON task
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

CREATE TRIGGER run_owner_lives BEFORE UPDATE OF owner ON run
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

CREATE TRIGGER session_owner_lives BEFORE UPDATE OF owner ON session
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

CREATE TRIGGER workspace_owner_lives BEFORE UPDATE OF owner ON workspace
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

CREATE TRIGGER snapshot_owner_lives BEFORE UPDATE OF owner ON snapshot
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;

-- Events: append-only streams, numbered from 1 without gaps. parent is the task that the stream's
-- sandbox works for, if any.

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

-- API keys. hash is that of the key itself, which is not kept. A key has no owner: it belongs to
-- the data directory.

CREATE TABLE api_key (
    seq        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    hash       TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    doc        TEXT    NOT NULL
) STRICT;
CREATE INDEX api_key_account ON api_key (account, created_at);

-- Idempotent requests, which are answered once. request is a digest. answer is NULL while done is
-- 0, and if it was too long.

CREATE TABLE once (
    seq        INTEGER PRIMARY KEY,
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

-- Decisions about outgoing connections. They have no owner and no references: they are kept when
-- their sandbox is removed. Their seq is never used again, also after the last row was removed.
-- size is that of doc, so that retention does not read doc.

CREATE TABLE egress (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT    NOT NULL,
    sandbox TEXT    NOT NULL,
    task    TEXT,
    at      INTEGER NOT NULL,
    result  TEXT    NOT NULL,
    host    TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    doc     TEXT    NOT NULL
) STRICT;
CREATE INDEX egress_account ON egress (account, seq, size);
CREATE INDEX egress_sandbox ON egress (sandbox, seq);
CREATE INDEX egress_task    ON egress (task, seq) WHERE task IS NOT NULL;
CREATE INDEX egress_at      ON egress (at);

-- Secrets, the records of their uses, and what requests used of their budgets. sealed is the
-- encrypted value; it is NULL unless the secret has a stored one. Uses have no references: they
-- are kept when their secret is removed; seq and size are as in egress.

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
CREATE INDEX secret_use_secret  ON secret_use (account, secret, seq);
CREATE INDEX secret_use_refused ON secret_use (account, seq) WHERE refused = 1;
CREATE INDEX secret_use_at      ON secret_use (at);

-- scope is 'total' (key ''), 'day' (key is its date in UTC) or 'task' (key is the task, or the
-- first sandbox of a lineage). usd are millionths. at is the time of the last request.

CREATE TABLE secret_spent (
    secret   INTEGER NOT NULL REFERENCES secret (seq) ON DELETE CASCADE,
    scope    TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    requests INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    usd      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (secret, scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX secret_spent_at ON secret_spent (at);

-- Lessons: what tasks learned, a failure with what fixed it. A lesson about the same failure
-- replaces the text of the one before it; the counts stay.

CREATE TABLE lesson (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    account     TEXT    NOT NULL,
    scope       TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    failure     TEXT    NOT NULL,
    fix         TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    seen        INTEGER NOT NULL DEFAULT 1,
    offered     INTEGER NOT NULL DEFAULT 0,
    helped      INTEGER NOT NULL DEFAULT 0,
    learned_at  INTEGER NOT NULL,
    offered_at  INTEGER,
    UNIQUE (account, scope, fingerprint)
) STRICT;

-- The words of failures. The triggers keep the index equal to the table.

CREATE VIRTUAL TABLE lesson_text USING fts5 (failure, content = 'lesson', content_rowid = 'seq', tokenize = "unicode61 tokenchars '_'");

CREATE TRIGGER lesson_added AFTER INSERT ON lesson BEGIN
    INSERT INTO lesson_text (rowid, failure) VALUES (NEW.seq, NEW.failure);
END;

CREATE TRIGGER lesson_removed AFTER DELETE ON lesson BEGIN
    INSERT INTO lesson_text (lesson_text, rowid, failure) VALUES ('delete', OLD.seq, OLD.failure);
END;

CREATE TRIGGER lesson_changed AFTER UPDATE OF failure ON lesson BEGIN
    INSERT INTO lesson_text (lesson_text, rowid, failure) VALUES ('delete', OLD.seq, OLD.failure);
    INSERT INTO lesson_text (rowid, failure) VALUES (NEW.seq, NEW.failure);
END;

-- Vectors of failures, made by embedding models, one at most for each lesson: IEEE 754 numbers of
-- 32 bits, little endian. dimension 0 says that the model refused the failure.

CREATE TABLE lesson_vector (
    lesson    INTEGER PRIMARY KEY REFERENCES lesson (seq) ON DELETE CASCADE,
    model     TEXT    NOT NULL,
    dimension INTEGER NOT NULL CHECK (dimension BETWEEN 0 AND 4096),
    vector    BLOB    NOT NULL CHECK (length(vector) = 4 * dimension)
) STRICT;
CREATE INDEX lesson_vector_model ON lesson_vector (model, dimension);

CREATE TRIGGER lesson_vector_stale AFTER UPDATE OF failure ON lesson WHEN NEW.failure <> OLD.failure BEGIN
    DELETE FROM lesson_vector WHERE lesson = NEW.seq;
END;
