-- What requests with a secret that has budgets used: altogether (scope 'total', key ''), on a day
-- ('day', its date in UTC) and in a task ('task', the task or the first sandbox of a lineage).
-- usd are millionths. at is the time of the last request.

-- +goose Up
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
