-- Who takes over the rows of an owner that has ended: one living owner at a time.

ALTER TABLE owner ADD COLUMN heir TEXT COLLATE "C";

-- Who does what one node does for all of them, such as the delivery of webhooks: until is of the clock of the database.

CREATE TABLE leader (
    name  TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL REFERENCES owner (id),
    until BIGINT NOT NULL
);
