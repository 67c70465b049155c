-- The browsers that are signed in to the console. A row ends with its key.

CREATE TABLE sign_in (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       TEXT    NOT NULL UNIQUE,
    key        TEXT    NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_key ON sign_in (key, seq);
