package database

import (
	"context"
	"database/sql"
	"math"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	// silentNodes are those that have not renewed their leases for $2 microseconds at the time $3. One that renewed its lease after that did so before the clock of the
	// database was set back.
	silentNodes = `SELECT id FROM node WHERE abs($3 - beat_at) > $2`
	// endSilentSQL ends their current runs, but for the heir ($1).
	endSilentSQL = `
		UPDATE owner SET ended_at = now_micros()
		WHERE ended_at IS NULL AND id <> $1 AND id IN (SELECT owner FROM node WHERE id IN (` + silentNodes + `))`
	// sameDirectory are the runs of the heir's data directory. Those from before there were nodes have none.
	sameDirectory = `(node = (SELECT node FROM owner WHERE id = $1) OR node IS NULL AND lock_path = (SELECT lock_path FROM owner WHERE id = $1))`
	// endEarlierSQL ends the earlier ones: there is one at a time.
	endEarlierSQL = `
		UPDATE owner SET ended_at = now_micros()
		WHERE ended_at IS NULL AND id <> $1 AND ` + sameDirectory
	// unfinished are the owners of what somebody has to continue or to end.
	unfinished = `
		SELECT owner FROM sandbox WHERE state IN ('starting', 'running', 'paused') AND owner IS NOT NULL
		UNION SELECT owner FROM task WHERE state <> 'done' AND owner IS NOT NULL
		UNION SELECT owner FROM run WHERE ended_at IS NULL
		UNION SELECT owner FROM session WHERE closed = 0
		UNION SELECT owner FROM repository WHERE state = 'fetching' AND owner IS NOT NULL
		UNION SELECT owner FROM plan WHERE done = 0`
	inheritSQL = `
		UPDATE owner SET heir = $1
		WHERE ended_at IS NOT NULL AND id <> $1
			AND (` + sameDirectory + ` OR (node IN (` + silentNodes + `) OR node NOT IN (SELECT id FROM node)) AND id IN (` + unfinished + `))
			AND (heir IS NULL OR heir IN (SELECT id FROM owner WHERE ended_at IS NOT NULL AND id NOT IN (` + unfinished + `)))`
	// followSQL has what an heir that ended left half taken over follow that heir: a task's row must not go to one and its journal to another.
	followSQL = `
		UPDATE owner SET heir = $1
		WHERE ended_at IS NOT NULL AND id <> $1 AND heir IN (SELECT id FROM owner WHERE heir = $1 AND ended_at IS NOT NULL)`
	inheritedSQL = `
		SELECT owner.id, coalesce(owner.node, ''), coalesce(node.name, '')
		FROM owner LEFT JOIN node ON node.id = owner.node
		WHERE owner.heir = $1 AND owner.id IN (` + unfinished + `)
		ORDER BY owner.id`
)

// InheritOwners implements store.Store.
func (db *DB) InheritOwners(ctx context.Context, heir api.OwnerID, lease time.Duration, judges func() bool) (all []store.Inherited, err error) {
	if err := db.sandboxes.ahead.flushRead(ctx); err != nil {
		return nil, err
	}
	err = db.sameTx(ctx, "heir "+string(heir), func(tx *sql.Tx, _ bool) error {
		if err := db.lock(ctx, tx, "heirs", ""); err != nil {
			return err
		}
		var lives bool
		sent, now := time.Now(), int64(0)
		if err := tx.QueryRowContext(ctx, db.dialect.adapt(`SELECT EXISTS (SELECT 1 FROM owner WHERE id = $1 AND ended_at IS NULL), now_micros()`), string(heir)).Scan(&lives, &now); err != nil {
			return wrapError(ctx, err, "read owner %s", heir)
		}
		if !lives {
			return api.Errorf(api.KindConflict, "owner %s has ended, and takes over nothing", heir)
		}
		if judges != nil && !judges() {
			all = nil // of a transaction that was lost
			return nil
		}
		silence := lease.Microseconds()
		if db.clock != nil {
			if db.clock.seen(now, sent); !db.clock.steady(lease) {
				silence = math.MaxInt64 // the clock was set: all nodes seem silent until they renew their leases
			}
		}
		for _, s := range []struct {
			query string
			args  []any
		}{
			{endSilentSQL, []any{string(heir), silence, now}}, {endEarlierSQL, []any{string(heir)}}, {inheritSQL, []any{string(heir), silence, now}},
			{followSQL, []any{string(heir)}}, {followSQL, []any{string(heir)}},
		} {
			if _, err := tx.ExecContext(ctx, db.dialect.adapt(s.query), s.args...); err != nil {
				return wrapError(ctx, err, "take over the rows of ended owners")
			}
		}
		all, err = list(ctx, tx, "inherited owners", func(r scanner) (i store.Inherited, err error) {
			return i, r.Scan(&i.Owner, &i.Node, &i.Name)
		}, inheritedSQL, string(heir))
		return err
	})
	return all, err
}

// Lead implements store.Store.
func (db *DB) Lead(ctx context.Context, what string, owner api.OwnerID, lease time.Duration) (bool, error) {
	r, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, db.dialect.adapt(`
			INSERT INTO leader (name, owner, until) VALUES ($1, $2, now_micros() + $3)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
			WHERE leader.owner = excluded.owner OR leader.until NOT BETWEEN now_micros() AND excluded.until + $3`), what, string(owner), lease.Microseconds())
	})
	if err != nil {
		return false, insertError(ctx, err, "leader", what, "owner "+string(owner))
	}
	return changed(r), nil
}

const (
	// departedSQL makes an owner of what one hands over while it lives: a run of the same node, without a process. It lives until the rows are its own, as the fence of rows asks.
	departedSQL = `
		INSERT INTO owner (id, host, lock_path, pid, started_at, node, heir)
		SELECT $1, host, lock_path, 0, started_at, node, $3 FROM owner
		WHERE id = $2 AND ended_at IS NULL AND EXISTS (SELECT 1 FROM owner WHERE id = $3 AND ended_at IS NULL)`
	departedTaskSQL      = `UPDATE task SET owner = $1 WHERE id = $3 AND owner = $2 AND state <> 'done'`
	departedRunSQL       = `UPDATE run SET owner = $1 WHERE id = $3 AND owner = $2 AND ended_at IS NULL`
	departedSessionSQL   = `UPDATE session SET owner = $1 WHERE id = $3 AND owner = $2 AND closed = 0`
	departedPlanSQL      = `UPDATE plan SET owner = $1 WHERE id = $3 AND owner = $2 AND done = 0`
	departedWorkspaceSQL = `UPDATE workspace SET owner = $1 WHERE id = $3 AND owner = $2`
)

// HandOver implements store.Store.
func (db *DB) HandOver(ctx context.Context, w store.Work, from, to api.OwnerID) error {
	departed := api.NewOwnerID()
	type change struct{ query, third, not string }
	changes := []change{{departedSQL, string(to), "owner " + string(from) + " or " + string(to) + " has ended"}}
	add := func(query, kind, id string) {
		if id != "" {
			changes = append(changes, change{query, id, kind + " " + id + " is over, or not of owner " + string(from)})
		}
	}
	add(departedSessionSQL, "session", string(w.Session))
	add(departedPlanSQL, "plan", string(w.Plan))
	for _, id := range w.Tasks {
		add(departedTaskSQL, "task", string(id))
		add(departedRunSQL, "the journal of task", string(id))
	}
	for _, id := range w.Workspaces {
		changes = append(changes, change{departedWorkspaceSQL, string(id), ""})
	}
	return db.sameTx(ctx, "work that is handed over", func(tx *sql.Tx, doubt bool) error {
		if doubt {
			var done bool
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM owner WHERE id = $1)`, string(departed)).Scan(&done); err != nil || done {
				return err
			}
		}
		if err := db.lock(ctx, tx, "heirs", ""); err != nil {
			return err
		}
		for _, c := range changes {
			r, err := tx.ExecContext(ctx, c.query, string(departed), string(from), c.third)
			if err != nil {
				return wrapError(ctx, err, "hand over work to owner %s", to)
			}
			if c.not != "" && !changed(r) {
				return api.Errorf(api.KindConflict, "nothing is handed over to owner %s: %s", to, c.not)
			}
		}
		if _, err := tx.ExecContext(ctx, db.dialect.adapt(`UPDATE owner SET ended_at = now_micros() WHERE id = $1`), string(departed)); err != nil {
			return wrapError(ctx, err, "hand over work to owner %s", to)
		}
		return nil
	})
}

// HandedOver implements store.Store.
func (db *DB) HandedOver(ctx context.Context, owner api.OwnerID) (given bool, err error) {
	err = db.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM owner WHERE id = $1 AND pid = 0 AND node IS NOT NULL AND heir IS NOT NULL)`, string(owner)).Scan(&given)
	if err != nil {
		return false, wrapError(ctx, err, "read owner %s", owner)
	}
	return given, nil
}
