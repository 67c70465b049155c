-- What tasks whose rows were removed came to: sums of package tally, for each account
-- ('' is the operator's) and day of creation, in days since 1970 in UTC.

-- +goose Up
CREATE TABLE task_tally (
    account TEXT    NOT NULL,
    day     INTEGER NOT NULL,
    sums    BLOB    NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX workspace_live_task ON workspace (task) WHERE state <> 'removed';
