-- What tasks learned: a failure with what fixed it. account '' is the operator's. Times are in microseconds.
-- A lesson about the same failure replaces the text of the one before it; the counts stay.

-- +goose Up
CREATE TABLE lesson (
    seq         INTEGER PRIMARY KEY, -- the order of insertion
    id          TEXT    NOT NULL UNIQUE,
    account     TEXT    NOT NULL,
    scope       TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    failure     TEXT    NOT NULL,
    fix         TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    seen        INTEGER NOT NULL DEFAULT 1,
    offered     INTEGER NOT NULL DEFAULT 0,
    helped      INTEGER NOT NULL DEFAULT 0,
    learned_at  INTEGER NOT NULL,
    offered_at  INTEGER,
    UNIQUE (account, scope, fingerprint)
) STRICT;

CREATE VIRTUAL TABLE lesson_text USING fts5 (failure, content = 'lesson', content_rowid = 'seq', tokenize = "unicode61 tokenchars '_'");

-- +goose StatementBegin
CREATE TRIGGER lesson_added AFTER INSERT ON lesson BEGIN
    INSERT INTO lesson_text (rowid, failure) VALUES (NEW.seq, NEW.failure);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lesson_removed AFTER DELETE ON lesson BEGIN
    INSERT INTO lesson_text (lesson_text, rowid, failure) VALUES ('delete', OLD.seq, OLD.failure);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER lesson_changed AFTER UPDATE OF failure ON lesson BEGIN
    INSERT INTO lesson_text (lesson_text, rowid, failure) VALUES ('delete', OLD.seq, OLD.failure);
    INSERT INTO lesson_text (rowid, failure) VALUES (NEW.seq, NEW.failure);
END;
-- +goose StatementEnd
