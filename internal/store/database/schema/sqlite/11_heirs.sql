-- Who takes over the rows of an owner that has ended: one living owner at a time.

ALTER TABLE owner ADD COLUMN heir TEXT;

-- The node that does what only one may do, such as the delivery of webhooks, until a time by the clock of the database. epoch grows
-- with each change of the leader.

CREATE TABLE leader (
    name  TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES owner (id),
    epoch INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
