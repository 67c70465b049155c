-- The nodes of a fleet. An owner is a run of a node; owners of databases that were made before have none. beat_at is of the
-- clock of the database, which all nodes share.

ALTER TABLE owner ADD COLUMN node TEXT COLLATE "C";

CREATE TABLE node (
    id      TEXT COLLATE "C" PRIMARY KEY,
    name    TEXT COLLATE "C" NOT NULL UNIQUE,
    owner   TEXT COLLATE "C" NOT NULL REFERENCES owner (id),
    address TEXT COLLATE "C" NOT NULL,
    state   TEXT COLLATE "C" NOT NULL,
    beat_at BIGINT NOT NULL,
    doc     TEXT COLLATE "C" NOT NULL
);

CREATE FUNCTION now_micros() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT
$$;
