-- provision is the task of a caller's own that a sandbox was made for, which with the
-- account it is asked for by. Like the account it is read out of doc: it never changes,
-- and statements that were stored ahead need not know it.

-- +goose Up
ALTER TABLE sandbox ADD COLUMN provision TEXT GENERATED ALWAYS AS (json_extract(doc, '$.provision.taskId')) VIRTUAL;
CREATE INDEX sandbox_provision ON sandbox (provision, account, created_at) WHERE provision IS NOT NULL;
