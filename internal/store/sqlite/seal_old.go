package sqlite

import (
	"context"
	"database/sql"
	"log/slog"

	"hortus.dev/internal/store/rowjson"
)

// sealedVersion is the user_version of a database with all values sealed. In version 1
// only those of sandboxes were.
const sealedVersion = 2

// sealOldRows seals the values of environment variables that an older build wrote in
// clear. It does so once.
func (db *database) sealOldRows(ctx context.Context, log *slog.Logger) error {
	var version int
	if err := db.read.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil || version >= sealedVersion {
		return err
	}
	boxes, err := list(ctx, db.read, "sandboxes", scanSandbox(db.sealer), `SELECT `+sandboxColumns+` FROM sandbox
		WHERE json_type(doc, '$.env') IS NOT NULL OR json_type(doc, '$.provision.envVars') IS NOT NULL`)
	if err != nil {
		return err
	}
	tasks, err := list(ctx, db.read, "tasks", scanTask(db.sealer), `SELECT `+taskColumns+` FROM task
		WHERE json_type(doc, '$.create.sandbox.env') IS NOT NULL`)
	if err != nil {
		return err
	}
	err = db.inTx(ctx, "old environment values", func(tx *sql.Tx) error {
		for _, b := range boxes {
			doc, err := db.sealer.Sandbox(b)
			if err := sealRow(ctx, tx, "sandbox", string(b.ID), doc, err); err != nil {
				return err
			}
		}
		for _, t := range tasks {
			doc, err := db.sealer.Task(t)
			if err := sealRow(ctx, tx, "task", string(t.ID), doc, err); err != nil {
				return err
			}
			// Events contained the whole task.
			_, err = tx.ExecContext(ctx, `UPDATE event SET data = CAST(json_remove(CAST(data AS TEXT), '$.create.sandbox.env') AS BLOB)
				WHERE stream_kind = 'task' AND stream_id = ? AND json_type(CAST(data AS TEXT), '$.create.sandbox.env') IS NOT NULL`, string(t.ID))
			if err != nil {
				return wrapError(ctx, err, "remove environment values from the events of task %s", t.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n := len(boxes) + len(tasks); n > 0 {
		log.Info("encrypted the stored environment values of sandboxes and tasks", "rows", n)
		// The clear values are still on free pages of the file.
		if _, err := db.write.ExecContext(ctx, `VACUUM`); err != nil {
			return wrapError(ctx, err, "remove environment values from the database's free pages")
		}
	}
	if _, err := db.write.ExecContext(ctx, `PRAGMA user_version = 2`); err != nil {
		return wrapError(ctx, err, "mark the database")
	}
	return nil
}

// sealRow replaces the document of a row by its sealed form, or returns err, the error of
// sealing it.
func sealRow(ctx context.Context, tx *sql.Tx, table, id string, doc any, err error) error {
	if err != nil {
		return err
	}
	text, err := rowjson.Marshal(doc)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE `+table+` SET doc = ?2 WHERE id = ?1`, id, string(text)); err != nil {
		return wrapError(ctx, err, "seal the environment of %s %s", table, id)
	}
	return nil
}
