-- Decisions about outgoing connections. account '' is the operator's. They have no owner and
-- no references: they are kept when their sandbox is removed. seq is never used again, also
-- after the last row was removed. size is that of doc, so that retention does not read doc.

-- +goose Up
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
CREATE INDEX egress_task ON egress (task, seq) WHERE task IS NOT NULL;
CREATE INDEX egress_at ON egress (at);
