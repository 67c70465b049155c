package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const sandboxColumns = `id, owner, state, task, created_at, expires_at, ended_at, doc`

func checkSandbox(s api.Sandbox) error {
	return checkRow("sandbox", string(s.ID), !s.CreatedAt.IsZero(), string(s.State),
		string(api.SandboxStarting), string(api.SandboxRunning), string(api.SandboxPaused), string(api.SandboxEnded), string(api.SandboxLost))
}

func (db sandboxTable) sandboxArgs(s api.Sandbox) ([]any, error) {
	if err := checkSandbox(s); err != nil {
		return nil, err
	}
	row, err := db.sealer.sandbox(s)
	if err != nil {
		return nil, err
	}
	doc, err := rowjson.Marshal(row)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "sandbox %s: %w", s.ID, err)
	}
	return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Task),
		toMicros(s.CreatedAt), toMicros(s.ExpiresAt), toMicros(s.EndedAt), string(doc)}, nil
}

const (
	insertSandboxSQL = `INSERT INTO sandbox
		(id, owner, host, lease_epoch, state, task, created_at, expires_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`
	// updateSandboxSameSQL is the common update, which keeps the owner.
	updateSandboxSameSQL = `UPDATE sandbox SET
		state = ?3, task = ?4, created_at = ?5, expires_at = ?6, ended_at = ?7, doc = ?8
		WHERE id = ?1 AND owner IS ?2 AND (state = ?3 OR state NOT IN ('ended', 'lost'))`
)

// InsertSandbox implements store.Store.
func (db sandboxTable) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := db.sandboxArgs(s)
	if err != nil {
		return err
	}
	if done, err := db.ahead.put(ctx, record{insertSandboxOp, args}); done || err != nil {
		return err
	}
	_, err = db.insertSandbox.ExecContext(ctx, args...)
	if err != nil {
		return insertError(ctx, err, "sandbox", string(s.ID), "owner "+string(s.Owner))
	}
	return nil
}

// UpdateSandbox implements store.Store.
func (db sandboxTable) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := db.sandboxArgs(s)
	if err != nil {
		return err
	}
	if done, err := db.ahead.put(ctx, record{updateSandboxOp, args}); done || err != nil {
		return err
	}
	if r, err := db.updateSandboxSame.ExecContext(ctx, args...); err != nil {
		return wrapError(ctx, err, "store sandbox %s", s.ID)
	} else if changed(r) {
		return nil
	}
	// The owner changes, or the update is refused.
	return db.inTx(ctx, "sandbox "+string(s.ID), func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE sandbox SET
			owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, task = ?4, created_at = ?5, expires_at = ?6, ended_at = ?7, doc = ?8
			WHERE id = ?1 AND (state = ?3 OR state NOT IN ('ended', 'lost'))`, args...)
		if err != nil {
			return updateError(ctx, err, "sandbox", string(s.ID), "owner "+string(s.Owner))
		}
		if !changed(r) {
			return updateConflict(ctx, tx, "sandbox", "sandbox", string(s.ID), string(s.State))
		}
		_, err = tx.ExecContext(ctx, `UPDATE exec SET (owner, host, lease_epoch) =
			(SELECT owner, host, lease_epoch FROM sandbox WHERE id = ?1) WHERE sandbox = ?1 AND owner IS NOT ?2`, args[:2]...)
		if err != nil {
			return wrapError(ctx, err, "store the owner of sandbox %s", s.ID)
		}
		return nil
	})
}

// Sandbox implements store.Store.
func (db sandboxTable) Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return api.Sandbox{}, err
	}
	return get(ctx, db.read, "sandbox", string(id), db.sealer.scanSandbox, `SELECT `+sandboxColumns+` FROM sandbox WHERE id = ?`)
}

// Sandboxes implements store.Store.
func (db sandboxTable) Sandboxes(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, error) {
	if err := checkLimit("sandboxes", f.Limit); err != nil {
		return nil, err
	}
	if err := db.ahead.flush(ctx); err != nil {
		return nil, err
	}
	w := sandboxWhere(f)
	q, args := w.selectSQL(sandboxColumns, "sandbox", "created_at DESC, seq DESC", f.Limit)
	return list(ctx, db.read, "sandboxes", db.sealer.scanSandbox, q, args...)
}

func sandboxWhere(f store.SandboxFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("owner", string(f.Owner))
	w.notEquals("owner", string(f.NotOwner))
	w.equals("task", string(f.Task))
	return w
}

// provisionedSQL finds the newest sandbox of a provision request's task: ?3 includes ended
// ones. A sandbox without an account is the operator's.
const provisionedSQL = `SELECT ` + sandboxColumns + ` FROM sandbox
	WHERE provision = ?1 AND account IS ?2 AND (?3 OR state NOT IN ('ended', 'lost'))
	ORDER BY created_at DESC, seq DESC LIMIT 1`

// ProvisionedOf implements store.Store.
func (db sandboxTable) ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return api.Sandbox{}, err
	}
	s, err := db.sealer.scanSandbox(db.read.QueryRowContext(ctx, provisionedSQL, task, nullable(account), ended))
	if errors.Is(err, sql.ErrNoRows) {
		return s, notFound("provisioned sandbox", task)
	}
	if err != nil {
		return s, wrapError(ctx, err, "read the sandbox of task %.128q", task)
	}
	return s, nil
}

func (k *sealer) scanSandbox(r scanner) (s api.Sandbox, err error) {
	var id, state, doc string
	var owner, task sql.NullString
	var created, expires, ended sql.NullInt64
	if err := r.Scan(&id, &owner, &state, &task, &created, &expires, &ended, &doc); err != nil {
		return s, err
	}
	var row sandboxDoc
	if err := rowjson.Unmarshal([]byte(doc), &row); err != nil {
		return s, api.Errorf(api.KindInternal, "the row of sandbox %s is damaged: %w", id, err)
	}
	s = k.openSandbox(row, api.SandboxID(id))
	s.ID, s.State = api.SandboxID(id), api.SandboxState(state)
	s.Owner, s.Task = api.OwnerID(owner.String), api.TaskID(task.String)
	s.CreatedAt, s.ExpiresAt, s.EndedAt = fromMicros(created), fromMicros(expires), fromMicros(ended)
	return s, nil
}
