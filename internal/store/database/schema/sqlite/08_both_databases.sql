-- What statements need that Postgres runs too: columns in the place of JSON functions, and no table of full text search.
-- repo is the JSON type of the repository of a task.

ALTER TABLE sandbox    ADD COLUMN lineage     TEXT    GENERATED ALWAYS AS (json_extract(doc, '$.lineage')) VIRTUAL;
ALTER TABLE task       ADD COLUMN repo        TEXT    GENERATED ALWAYS AS (json_type(doc, '$.create.repo')) VIRTUAL;
ALTER TABLE workspace  ADD COLUMN keep        INTEGER GENERATED ALWAYS AS (json_extract(doc, '$.keep')) VIRTUAL;
ALTER TABLE hook_event ADD COLUMN over_budget INTEGER GENERATED ALWAYS AS (json_extract(doc, '$.overBudget')) VIRTUAL;

DROP TRIGGER lesson_added;
DROP TRIGGER lesson_removed;
DROP TRIGGER lesson_changed;
DROP TABLE lesson_text;
