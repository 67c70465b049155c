-- Secret values that the nodes of a fleet share, encrypted: keys of tokens, and of the certificate authority of nodes.

CREATE TABLE shared_value (
    name   TEXT COLLATE "C" PRIMARY KEY,
    sealed BYTEA NOT NULL
);
