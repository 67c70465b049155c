-- workspace is the workspace that a sandbox works in, read out of its doc as the account is.

-- +goose Up
ALTER TABLE sandbox ADD COLUMN workspace TEXT GENERATED ALWAYS AS (json_extract(doc, '$.workspace')) VIRTUAL;
CREATE INDEX sandbox_workspace ON sandbox (workspace, created_at) WHERE workspace IS NOT NULL;
