-- Who takes over the rows of an owner that has ended: one living owner at a time.

ALTER TABLE owner ADD COLUMN heir TEXT COLLATE "C";

-- The node that does what only one may do, such as the delivery of webhooks, until a time by the clock of the database. epoch grows
-- with each change of the leader.

CREATE TABLE leader (
    name  TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL REFERENCES owner (id),
    epoch BIGINT NOT NULL,
    until BIGINT NOT NULL
);
