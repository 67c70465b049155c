-- Who takes over the rows of an owner that has ended: one living owner at a time.

ALTER TABLE owner ADD COLUMN heir TEXT;

-- Who does what one node does for all of them, such as the delivery of webhooks: until is of the clock of the database.

CREATE TABLE leader (
    name  TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL REFERENCES owner (id),
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
