-- An owner renews its lease: beat_at is when it last did. No row changes to an owner that
-- has ended, so an owner that was declared dead cannot take back what another one took over.

-- +goose Up
ALTER TABLE owner ADD COLUMN beat_at INTEGER;
-- +goose StatementBegin
CREATE TRIGGER sandbox_owner_lives BEFORE UPDATE OF owner ON sandbox
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER task_owner_lives BEFORE UPDATE OF owner ON task
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER workspace_owner_lives BEFORE UPDATE OF owner ON workspace
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER snapshot_owner_lives BEFORE UPDATE OF owner ON snapshot
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (SELECT 1 FROM owner WHERE id = NEW.owner AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'the owner has ended');
END;
-- +goose StatementEnd
