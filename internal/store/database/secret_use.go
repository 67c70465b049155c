package database

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectSecretUseSQL = `
		SELECT doc, seq, account, secret, sandbox, at FROM secret_use`
	insertSecretUseSQL = `
		INSERT INTO secret_use (account, secret, sandbox, at, refused, size, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		RETURNING seq`
	countSecretUsesSQL = `
		UPDATE secret
		SET uses = uses + $3, used_at = CASE WHEN used_at > $4 THEN used_at ELSE $4 END
		WHERE account = $1 AND name = $2`

	// What was used of a secret ($1): altogether, on a day ($2) and in a task ($3).
	selectSpentSQL = `
		SELECT scope, requests, tokens, usd FROM secret_spent
		WHERE secret = $1 AND (scope = 'total' OR scope = 'day' AND key = $2 OR scope = 'task' AND key = $3)`
	addSpentSQL = `
		INSERT INTO secret_spent (secret, scope, key, requests, tokens, usd, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (secret, scope, key) DO UPDATE
		SET requests = secret_spent.requests + $4, tokens = secret_spent.tokens + $5, usd = secret_spent.usd + $6,
			at = CASE WHEN secret_spent.at > $7 THEN secret_spent.at ELSE $7 END`
	settleSpentSQL = `
		UPDATE secret_spent
		SET requests = CASE WHEN requests + $4 > 0 THEN requests + $4 ELSE 0 END,
			tokens = CASE WHEN tokens + $5 > 0 THEN tokens + $5 ELSE 0 END,
			usd = CASE WHEN usd + $6 > 0 THEN usd + $6 ELSE 0 END
		WHERE secret = (SELECT seq FROM secret WHERE account = $7 AND name = $1)
			AND (scope = 'total' OR scope = 'day' AND key = $2 OR scope = 'task' AND key = $3)`
	resetSpentSQL = `
		DELETE FROM secret_spent
		WHERE secret = (SELECT seq FROM secret WHERE account = $1 AND name = $2)`
	mostSpentSQL = `
		SELECT key, requests, tokens, usd, at FROM secret_spent
		WHERE secret = $1 AND scope = 'task'
		ORDER BY usd DESC, tokens DESC, requests DESC, key
		LIMIT $2`
	// pruneSpentSQL removes what is about days and tasks that have ended: $1 rows of an account, $2 the
	// oldest time, $3 the first day that is kept, $4 the maximum number that it removes.
	pruneSpentSQL = `
		DELETE FROM secret_spent WHERE (secret, scope, key) IN (
			SELECT secret, scope, key FROM (
				SELECT secret, scope, key, at,
					row_number() OVER (PARTITION BY secret.account ORDER BY at DESC, secret_spent.secret, key) AS n
				FROM secret_spent JOIN secret ON secret.seq = secret_spent.secret
				WHERE scope <> 'total') AS spent
			WHERE (n > $1 OR at < $2)
				AND NOT (scope = 'day' AND key >= $3)
				AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = key AND task.state <> 'done')
				AND NOT EXISTS (
					SELECT 1 FROM sandbox
					WHERE state NOT IN ('ended', 'lost')
						AND (id = key OR sandbox.task = key OR lineage = key))
			LIMIT $4)`
)

// secretUseArgs validates a use and returns the values of its row.
func secretUseArgs(u secrets.Use) ([]any, error) {
	switch {
	case u.Secret == "" && u.Refused == "": // a placeholder may be of no secret
		return nil, api.Errorf(api.KindInvalid, "row of a use of a secret: the secret is missing")
	case u.Sandbox == "" && u.Purpose == "" && u.Missed == 0:
		return nil, api.Errorf(api.KindInvalid, "row of a use of secret %s: the sandbox is missing", u.Secret)
	case u.At.IsZero():
		return nil, api.Errorf(api.KindInvalid, "row of a use of secret %s: the time is missing", u.Secret)
	}
	u.Seq = 0 // the column has it
	doc, err := rowjson.Marshal(u)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "use of secret %s: %w", u.Secret, err)
	}
	return []any{u.Account, u.Secret, string(u.Sandbox), toMicros(u.At), u.Refused != "", len(doc), string(doc)}, nil
}

// useCount is what the uses of one secret add to its row.
type useCount struct {
	n    int
	last time.Time
}

// InsertSecretUses implements store.Store.
func (db *DB) InsertSecretUses(ctx context.Context, all []secrets.Use) error {
	sums := map[[2]string]useCount{}
	for _, u := range all {
		if u.Refused != "" || u.Missed > 0 || u.Broken {
			continue
		}
		of := [2]string{u.Account, u.Secret}
		s := sums[of]
		if s.n++; u.At.After(s.last) {
			s.last = u.At
		}
		sums[of] = s
	}
	return insertNumbered(ctx, db, "uses of secrets", &db.insertSecretUse, all, secretUseArgs, func(u *secrets.Use, seq int64) { u.Seq = seq }, func(tx *sql.Tx) error {
		for of, s := range sums {
			if _, err := tx.ExecContext(ctx, countSecretUsesSQL, of[0], of[1], s.n, toMicros(s.last)); err != nil {
				return wrapError(ctx, err, "count uses of secrets")
			}
		}
		return nil
	})
}

// SecretUsePage implements store.Store.
func (db *DB) SecretUsePage(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error) {
	w := where{[]string{"account = ?"}, []any{account}}
	w.equals("secret", f.Secret)
	if f.Refused {
		w.and("refused = 1")
	}
	w.since("at", f.Since)
	return numberedPage(ctx, db, "uses of secrets", selectSecretUseSQL, w, p, scanSecretUse,
		func(u secrets.Use) (time.Time, int64) { return u.At, u.Seq })
}

func scanSecretUse(r scanner) (u secrets.Use, err error) {
	err = scanRow(r, "use of a secret", &u, &u.Seq, &u.Account, &u.Secret, &u.Sandbox, instant{&u.At})
	return u, err
}

// checkSpender refuses one whose requests cannot be counted.
func checkSpender(by secrets.Spender) error {
	if by.Secret == "" || by.Task == "" || by.At.IsZero() {
		return api.Errorf(api.KindInvalid, "a use of secret %s: the secret, the task or the time is missing", by.Secret)
	}
	return nil
}

// dayKey is the key of a day.
func dayKey(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// budgetsOf returns the number of a secret and its budgets. lock ends the statement.
func budgetsOf(ctx context.Context, r runner, account, name, lock string) (seq int64, budgets []secrets.Budget, err error) {
	row, err := scanSecret(r.QueryRowContext(ctx, selectSecretSQL+` WHERE account = $1 AND name = $2`+lock, account, name))
	return row.seq, row.Budgets, secretError(ctx, err, name)
}

// spentOf returns what was used of a secret altogether, on a day and in a task.
func spentOf(ctx context.Context, r runner, seq int64, at time.Time, task string) (map[secrets.Per]secrets.Amounts, error) {
	out := map[secrets.Per]secrets.Amounts{}
	return out, each(ctx, r, "amounts that a secret used", selectSpentSQL, []any{seq, dayKey(at), task}, func(s scanner) (bool, error) {
		var scope secrets.Per
		var a secrets.Amounts
		err := s.Scan(&scope, &a.Requests, &a.Tokens, &a.MicroUSD)
		out[scope] = a
		return true, err
	})
}

// ReserveSecret implements store.Store.
func (db *DB) ReserveSecret(ctx context.Context, by secrets.Spender, a secrets.Amounts) (over *secrets.Exhausted, err error) {
	if err := checkSpender(by); err != nil {
		return nil, err
	}
	if a.Requests < 0 || a.Tokens < 0 || a.MicroUSD < 0 {
		return nil, api.Errorf(api.KindInvalid, "a use of secret %s: an amount is negative", by.Secret)
	}
	err = db.inTx(ctx, "the budgets of secret "+by.Secret, func(tx *sql.Tx) error {
		over = nil // it may run again
		seq, budgets, err := budgetsOf(ctx, tx, by.Account, by.Secret, db.dialect.adapt(" FOR UPDATE"))
		if err != nil || len(budgets) == 0 {
			return err
		}
		have, err := spentOf(ctx, tx, seq, by.At, by.Task)
		if err != nil {
			return err
		}
		for _, b := range budgets {
			if used := have[cmp.Or(b.Per, secrets.PerTask)].In(b.Unit); used >= b.Limit() {
				over = &secrets.Exhausted{Budget: b, Used: used}
				return nil
			}
		}
		for scope, key := range map[secrets.Per]string{secrets.PerTotal: "", secrets.PerDay: dayKey(by.At), secrets.PerTask: by.Task} {
			if _, err := tx.ExecContext(ctx, addSpentSQL, seq, string(scope), key, a.Requests, a.Tokens, a.MicroUSD, by.At.UnixMicro()); err != nil {
				return secretError(ctx, err, by.Secret)
			}
		}
		return nil
	})
	return over, err
}

// SettleSecret implements store.Store.
func (db *DB) SettleSecret(ctx context.Context, by secrets.Spender, change secrets.Amounts) error {
	if err := checkSpender(by); err != nil {
		return err
	}
	err := db.relieved(func() error { // it counts, so it must not run twice
		_, err := db.write.ExecContext(ctx, settleSpentSQL, by.Secret, dayKey(by.At), by.Task, change.Requests, change.Tokens, change.MicroUSD, by.Account)
		return err
	})
	return secretError(ctx, err, by.Secret)
}

// ResetSecretSpent implements store.Store.
func (db *DB) ResetSecretSpent(ctx context.Context, account, name string) error {
	_, err := db.write.ExecContext(ctx, resetSpentSQL, account, name)
	return secretError(ctx, err, name)
}

// SecretSpent implements store.Store.
func (db *DB) SecretSpent(ctx context.Context, account, name string, at time.Time, tasks int) (secrets.Spent, error) {
	out := secrets.Spent{Tasks: []secrets.TaskSpent{}}
	seq, _, err := budgetsOf(ctx, db.read, account, name, "")
	if err != nil {
		return out, err
	}
	have, err := spentOf(ctx, db.read, seq, at, "")
	if err != nil {
		return out, err
	}
	out.Total, out.Today = have[secrets.PerTotal], have[secrets.PerDay]
	return out, each(ctx, db.read, "tasks that used a secret", mostSpentSQL, []any{seq, tasks}, func(s scanner) (bool, error) {
		var t secrets.TaskSpent
		err := s.Scan(&t.Task, &t.Requests, &t.Tokens, &t.MicroUSD, instant{&t.At})
		out.Tasks = append(out.Tasks, t)
		return true, err
	})
}
