-- Vectors of the failures of lessons, made by embedding models. A lesson has one at most; vector has IEEE 754 numbers of
-- 32 bits, little endian. dimension 0 says that the model refused the failure.

-- +goose Up
CREATE TABLE lesson_vector (
    lesson    INTEGER PRIMARY KEY REFERENCES lesson (seq) ON DELETE CASCADE,
    model     TEXT    NOT NULL,
    dimension INTEGER NOT NULL CHECK (dimension BETWEEN 0 AND 4096),
    vector    BLOB    NOT NULL CHECK (length(vector) = 4 * dimension)
) STRICT;
CREATE INDEX lesson_vector_model ON lesson_vector (model, dimension);

-- +goose StatementBegin
CREATE TRIGGER lesson_vector_stale AFTER UPDATE OF failure ON lesson WHEN NEW.failure <> OLD.failure BEGIN
    DELETE FROM lesson_vector WHERE lesson = NEW.seq;
END;
-- +goose StatementEnd
