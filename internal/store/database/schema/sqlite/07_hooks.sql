-- The requests for tasks that forges sent. The primary key keeps one cause from starting two tasks.

CREATE TABLE hook_event (
    repository TEXT    NOT NULL REFERENCES repository (id) ON DELETE CASCADE,
    cause      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    task       TEXT,
    doc        TEXT    NOT NULL,
    PRIMARY KEY (repository, cause)
) STRICT;
CREATE INDEX hook_event_at ON hook_event (repository, at);
CREATE INDEX hook_event_open ON hook_event (state) WHERE state IN ('starting', 'started');
