package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
)

const (
	selectSandboxSQL = `
		SELECT doc, id, owner, state, task, created_at, expires_at, ended_at FROM sandbox`
	insertSandboxSQL = `
		INSERT INTO sandbox (id, owner, host, lease_epoch, state, task, created_at, expires_at, ended_at, doc)
		VALUES ($1, $2, coalesce((SELECT host FROM owner WHERE id = $2), ''), 1, $3, $4, $5, $6, $7, $8)`
	updateSandboxSQL = `
		UPDATE sandbox
		SET owner = $2, host = coalesce((SELECT host FROM owner WHERE id = $2), ''),
			lease_epoch = lease_epoch + CASE WHEN owner IS DISTINCT FROM $2 THEN 1 ELSE 0 END,
			state = $3, task = $4, created_at = $5, expires_at = $6, ended_at = $7, doc = $8
		WHERE id = $1 AND (state = $3 OR state NOT IN ('ended', 'lost')) AND ` + mayWrite
	// updateSandboxSameSQL is the common update, which keeps the owner.
	updateSandboxSameSQL = `
		UPDATE sandbox
		SET state = $3, task = $4, created_at = $5, expires_at = $6, ended_at = $7, doc = $8
		WHERE id = $1 AND owner IS NOT DISTINCT FROM $2 AND (state = $3 OR state NOT IN ('ended', 'lost'))`
	adoptExecsSQL = `
		UPDATE exec
		SET (owner, host, lease_epoch) = (SELECT owner, host, lease_epoch FROM sandbox WHERE id = $1)
		WHERE sandbox = $1 AND owner IS DISTINCT FROM $2`
	selectMovingSQL = `
		SELECT doc, id, owner, state, task, created_at, expires_at, ended_at, doc FROM sandbox WHERE id = $1`
	// moveSandboxSQL compares the document, so that a move which was sent before a later write of the row fails after it.
	moveSandboxSQL = `
		UPDATE sandbox
		SET owner = $3, host = coalesce((SELECT host FROM owner WHERE id = $3), ''), lease_epoch = lease_epoch + 1
		WHERE id = $1 AND owner = $2 AND state = 'paused' AND doc = $4 AND EXISTS (SELECT 1 FROM owner WHERE id = $3 AND ended_at IS NULL)`
	// provisionedSQL finds the newest sandbox of a provision request's task: $3 includes ended
	// ones. A sandbox without an account is the operator's.
	provisionedSQL = selectSandboxSQL + `
		WHERE provision = $1 AND account IS NOT DISTINCT FROM $2 AND ($3 = 1 OR state NOT IN ('ended', 'lost'))
		ORDER BY created_at DESC, seq DESC LIMIT 1`

	sandboxLives = "state IN ('starting', 'running', 'paused')"
)

func sandboxTable(db *DB) table[api.Sandbox, api.SandboxID] {
	return table[api.Sandbox, api.SandboxID]{
		db: db, ahead: db.ahead.ofSandboxes(), what: "sandbox", plural: "sandboxes", name: "sandbox", letter: "i", start: "created_at",
		selectSQL: selectSandboxSQL, insertSQL: insertSandboxSQL, updateSQL: updateSandboxSQL, adoptSQL: adoptExecsSQL,
		scan: func(r scanner) (api.Sandbox, error) {
			var row sandboxDoc
			err := scanRow(r, "sandbox", &row, &row.ID, text(&row.Owner), &row.State, text(&row.Task),
				instant{&row.CreatedAt}, instant{&row.ExpiresAt}, instant{&row.EndedAt})
			return db.sealer.openSandbox(row), err
		},
		mark:     func(s api.Sandbox) (time.Time, api.SandboxID) { return s.CreatedAt, s.ID },
		states:   names(api.SandboxStarting, api.SandboxRunning, api.SandboxPaused, api.SandboxEnded, api.SandboxLost),
		document: func(s api.Sandbox) (any, error) { return db.sealer.sandbox(s) },
		values: func(s api.Sandbox) []any {
			return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Task),
				toMicros(s.CreatedAt), toMicros(s.ExpiresAt), toMicros(s.EndedAt)}
		},
	}
}

// InsertSandbox implements store.Store.
func (db *DB) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := db.sandboxes.args(s)
	if err != nil {
		return err
	}
	row := record{insertSandboxOp, args}
	if done, err := db.ahead.put(ctx, row); done || err != nil {
		return err
	}
	if err := db.mayGrow("sandbox " + string(s.ID)); err != nil {
		return err
	}
	err = db.insertOnce(ctx, func() error { _, err := db.insertSandbox.exec(ctx, nil, args...); return err })
	if err == nil {
		db.ahead.stored(row)
	}
	return db.sandboxes.insertError(ctx, err, args)
}

// UpdateSandbox implements store.Store.
func (db *DB) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := db.sandboxes.args(s)
	if err != nil {
		return err
	}
	row := record{updateSandboxOp, args}
	if done, err := db.ahead.put(ctx, row); done || err != nil {
		return err
	}
	r, err := db.execRelieved(ctx, func() (sql.Result, error) { return db.updateSandboxSame.exec(ctx, nil, args...) })
	switch {
	case err != nil:
		err = wrapError(ctx, err, "store sandbox %s", s.ID)
	case !changed(r): // the owner changes, or the update is refused
		err = db.sandboxes.updateArgs(ctx, args)
	}
	if err != nil {
		db.ahead.forget(s.ID)
		return err
	}
	db.ahead.stored(row)
	return nil
}

// MoveSandbox implements store.Store.
func (db *DB) MoveSandbox(ctx context.Context, s api.Sandbox, to api.OwnerID) error {
	if s.Owner == "" || s.Owner == to || s.Snapshot == "" {
		return api.Errorf(api.KindInvalid, "sandbox %s cannot be moved: it has no other owner, or is not paused to disk", s.ID)
	}
	db.ahead.forget(s.ID)
	if err := db.ahead.flush(ctx); err != nil {
		return err
	}
	return db.inTx(ctx, "sandbox "+string(s.ID), func(tx *sql.Tx) error {
		var doc string
		have, err := get(ctx, tx, "sandbox", string(s.ID), func(r scanner) (api.Sandbox, error) { return db.sandboxes.scan(extraColumn{r, &doc}) }, selectMovingSQL)
		if err != nil {
			return err
		}
		if have.Owner != s.Owner || have.State != s.State || have.Snapshot != s.Snapshot || have.Moving != s.Moving {
			return api.Errorf(api.KindConflict, "sandbox %s has changed, and is not moved: it is %s, and was %s", s.ID, have.State, s.State)
		}
		r, err := tx.ExecContext(ctx, moveSandboxSQL, string(s.ID), string(s.Owner), string(to), doc)
		if err != nil {
			return wrapError(ctx, err, "move sandbox %s", s.ID)
		}
		if !changed(r) {
			return api.Errorf(api.KindConflict, "sandbox %s has changed, or owner %s has ended", s.ID, to)
		}
		if _, err := tx.ExecContext(ctx, adoptExecsSQL, string(s.ID), string(to)); err != nil {
			return wrapError(ctx, err, "move the commands of sandbox %s", s.ID)
		}
		return nil
	})
}

// Sandbox implements store.Store.
func (db *DB) Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return db.sandboxes.get(ctx, db.read, id)
}

// ListSandboxes implements store.Store.
func (db *DB) ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return db.sandboxes.listLive(ctx, sandboxLives, all)
}

// SandboxesOf implements store.Store.
func (db *DB) SandboxesOf(ctx context.Context, account string) ([]api.Sandbox, error) {
	w := where{conds: []string{sandboxLives}}
	w.equals("account", account)
	return db.sandboxes.list(ctx, db.read, w, 0)
}

// SandboxesIn implements store.Store.
func (db *DB) SandboxesIn(ctx context.Context, workspace api.WorkspaceID) ([]api.Sandbox, error) {
	return db.sandboxes.list(ctx, db.read, where{[]string{"workspace = ?"}, []any{string(workspace)}}, 0)
}

// SandboxPage implements store.Store.
func (db *DB) SandboxPage(ctx context.Context, account string, all bool, p api.PageRequest) ([]api.Sandbox, string, error) {
	var w where
	w.equals("account", account)
	if !all {
		w.and(sandboxLives)
	}
	return db.sandboxes.page(ctx, w, p)
}

// FindSandbox implements store.Store.
func (db *DB) FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error) {
	return db.sandboxes.find(ctx, "", prefix)
}

// FindSandboxOf implements store.Store.
func (db *DB) FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error) {
	return db.sandboxes.find(ctx, account, prefix)
}

// ProvisionedOf implements store.Store.
func (db *DB) ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error) {
	if err := db.sandboxes.ahead.flushRead(ctx); err != nil {
		return api.Sandbox{}, err
	}
	s, err := db.sandboxes.scan(db.read.QueryRowContext(ctx, provisionedSQL, task, nullable(account), ended))
	if errors.Is(err, sql.ErrNoRows) {
		return s, notFound("provisioned sandbox", task)
	}
	if err != nil {
		return s, wrapError(ctx, err, "read the sandbox of task %.128q", task)
	}
	return s, nil
}
