-- Stored documents: a row for each version. The largest version is the current one.

CREATE TABLE document (
    account    TEXT    NOT NULL,
    repository TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    title      TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (account, repository, name, version)
) STRICT;
