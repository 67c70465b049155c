-- The account and the name of a workspace are read out of its doc, as those of other rows.
-- Workspaces of older tasks get the account of their task.

-- +goose Up
UPDATE workspace SET doc = json_set(doc, '$.account', (SELECT json_extract(task.doc, '$.account') FROM task WHERE task.id = workspace.task))
WHERE task IS NOT NULL AND json_extract(doc, '$.account') IS NULL
AND (SELECT json_extract(task.doc, '$.account') FROM task WHERE task.id = workspace.task) IS NOT NULL;
ALTER TABLE workspace ADD COLUMN account TEXT GENERATED ALWAYS AS (json_extract(doc, '$.account')) VIRTUAL;
ALTER TABLE workspace ADD COLUMN name TEXT GENERATED ALWAYS AS (json_extract(doc, '$.name')) VIRTUAL;
CREATE INDEX workspace_account ON workspace (account, created_at) WHERE account IS NOT NULL;
CREATE INDEX workspace_name ON workspace (name) WHERE name IS NOT NULL;
