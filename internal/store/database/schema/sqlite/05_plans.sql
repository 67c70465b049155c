-- Plans and their items. repository names what a plan changes. doc is JSON of those who use it.

CREATE TABLE plan (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    repository TEXT    NOT NULL,
    owner      TEXT    NOT NULL REFERENCES owner (id),
    done       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    doc        BLOB    NOT NULL
) STRICT;
CREATE INDEX plan_account ON plan (account, seq);
CREATE INDEX plan_open    ON plan (repository, seq) WHERE done = 0;

CREATE TABLE plan_item (
    plan INTEGER NOT NULL REFERENCES plan (seq) ON DELETE CASCADE,
    n    INTEGER NOT NULL,
    doc  BLOB    NOT NULL,
    PRIMARY KEY (plan, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER plan_owner_lives BEFORE UPDATE OF owner ON plan
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
