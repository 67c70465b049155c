-- Events about the lives of sandboxes, in one order for all sandboxes. Each is stored by the statement that
-- appends the event to the log of its sandbox, and removed with that log. A sandbox's row may be stored later
-- than its events, so there is no reference, and the account is found by a join.

CREATE TABLE lifecycle (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox TEXT    NOT NULL,
    number  INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    type    TEXT    NOT NULL,
    data    BLOB
) STRICT;
CREATE INDEX lifecycle_sandbox ON lifecycle (sandbox, seq);

CREATE TRIGGER lifecycle_append AFTER INSERT ON event
WHEN NEW.stream_kind = 'sandbox' AND NEW.type IN ('sandbox.state', 'sandbox.updated')
BEGIN
    INSERT INTO lifecycle (sandbox, number, at, type, data)
    SELECT NEW.stream_id, NEW.seq, NEW.at, type, NEW.data
    FROM (
        SELECT CASE
            WHEN NEW.type = 'sandbox.updated' THEN 'updated'
            WHEN state = 'paused' THEN 'paused'
            WHEN state = 'running' AND before IS NULL THEN 'created'
            WHEN state = 'running' AND before = 'paused' THEN 'resumed'
            WHEN state IN ('ended', 'lost') AND before IN ('running', 'paused') THEN 'killed'
        END AS type
        FROM (
            SELECT
                CASE WHEN json_valid(CAST(NEW.data AS TEXT)) THEN json_extract(CAST(NEW.data AS TEXT), '$.state') END AS state,
                (SELECT CASE WHEN json_valid(CAST(data AS TEXT)) THEN json_extract(CAST(data AS TEXT), '$.state') END
                    FROM event
                    WHERE stream_kind = 'sandbox' AND stream_id = NEW.stream_id AND seq < NEW.seq AND type = 'sandbox.state'
                    ORDER BY seq DESC LIMIT 1) AS before))
    WHERE type IS NOT NULL;
END;

CREATE TRIGGER lifecycle_remove AFTER DELETE ON event
WHEN OLD.stream_kind = 'sandbox' AND OLD.type IN ('sandbox.state', 'sandbox.updated')
BEGIN
    DELETE FROM lifecycle WHERE sandbox = OLD.stream_id AND number = OLD.seq;
END;

-- Webhooks, and the last attempts to deliver events to them. sealed is the encrypted secret, position the
-- lifecycle.seq up to which events were delivered or given up. events and doc are JSON.

CREATE TABLE webhook (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    url        TEXT    NOT NULL,
    enabled    INTEGER NOT NULL,
    events     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    sealed     BLOB    NOT NULL
) STRICT;
CREATE INDEX webhook_account ON webhook (account, seq);

CREATE TABLE webhook_delivery (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook INTEGER NOT NULL REFERENCES webhook ON DELETE CASCADE,
    doc     TEXT    NOT NULL
) STRICT;
CREATE INDEX webhook_delivery_webhook ON webhook_delivery (webhook, seq);
