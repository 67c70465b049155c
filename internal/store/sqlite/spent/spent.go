package spent

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"hortus.dev/api/secrets"
)

// DB is a pool of connections or a transaction.
type DB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

const (
	secretSQL = `SELECT seq, coalesce(json_extract(doc, '$.budgets'), '[]') FROM secret WHERE account = ? AND name = ?`
	ofSQL     = `SELECT scope, requests, tokens, usd FROM secret_spent
		WHERE secret = ?1 AND (scope = 'total' OR scope = 'day' AND key = ?2 OR scope = 'task' AND key = ?3)`
	addSQL = `INSERT INTO secret_spent (secret, scope, key, requests, tokens, usd, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (secret, scope, key) DO UPDATE SET requests = requests + ?4, tokens = tokens + ?5, usd = usd + ?6, at = max(at, ?7)`
	settleSQL = `UPDATE secret_spent SET requests = max(requests + ?4, 0), tokens = max(tokens + ?5, 0), usd = max(usd + ?6, 0)
		WHERE secret = (SELECT seq FROM secret WHERE account = ?7 AND name = ?1)
		AND (scope = 'total' OR scope = 'day' AND key = ?2 OR scope = 'task' AND key = ?3)`
	topSQL = `SELECT key, requests, tokens, usd, at FROM secret_spent WHERE secret = ?1 AND scope = 'task'
		ORDER BY usd DESC, tokens DESC, requests DESC, key LIMIT ?2`

	// ResetSQL forgets what a secret (?2) of an account (?1) used.
	ResetSQL = `DELETE FROM secret_spent WHERE secret = (SELECT seq FROM secret WHERE account = ?1 AND name = ?2)`
	// PruneSQL removes what is about days and tasks that have ended: ?1 rows of an account, ?2 the
	// oldest time, ?3 the maximum number that it removes.
	PruneSQL = `DELETE FROM secret_spent WHERE (secret, scope, key) IN (
		SELECT secret, scope, key FROM (
			SELECT secret, scope, key, at, row_number() OVER (PARTITION BY secret.account ORDER BY at DESC, secret_spent.secret, key) AS n
			FROM secret_spent JOIN secret ON secret.seq = secret_spent.secret WHERE scope <> 'total') AS spent
		WHERE (n > ?1 OR at < ?2)
		AND NOT (scope = 'day' AND key >= date('now', '-2 days'))
		AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = key AND task.state <> 'done')
		AND NOT EXISTS (SELECT 1 FROM sandbox WHERE state NOT IN ('ended', 'lost') AND (id = key OR sandbox.task = key OR json_extract(doc, '$.lineage') = key))
		LIMIT ?3)`
)

// day is the key of a day.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// budgetsOf returns the row of a secret and its budgets; sql.ErrNoRows if there is none.
func budgetsOf(ctx context.Context, db DB, account, name string) (seq int64, budgets []secrets.Budget, err error) {
	err = sql.ErrNoRows
	if e := each(ctx, db, secretSQL, []any{account, name}, func(rows *sql.Rows) error {
		var text string
		if err = rows.Scan(&seq, &text); err == nil {
			err = json.Unmarshal([]byte(text), &budgets)
		}
		return err
	}); e != nil {
		err = e
	}
	return seq, budgets, err
}

// Reserve counts a request, unless one of the budgets of its secret is used up: then it returns
// that. It counts nothing if there are none. sql.ErrNoRows if there is no such secret.
func Reserve(ctx context.Context, db DB, by secrets.Spender, a secrets.Amounts) (*secrets.Exhausted, error) {
	seq, budgets, err := budgetsOf(ctx, db, by.Account, by.Secret)
	if err != nil || len(budgets) == 0 {
		return nil, err
	}
	have, err := of(ctx, db, seq, by.At, by.Task)
	if err != nil {
		return nil, err
	}
	for _, b := range budgets {
		if used := have[cmp.Or(b.Per, secrets.PerTask)].In(b.Unit); used >= b.Limit() {
			return &secrets.Exhausted{Budget: b, Used: used}, nil
		}
	}
	for scope, key := range map[secrets.Per]string{secrets.PerTotal: "", secrets.PerDay: day(by.At), secrets.PerTask: by.Task} {
		if _, err := db.ExecContext(ctx, addSQL, seq, string(scope), key, a.Requests, a.Tokens, a.MicroUSD, by.At.UnixMicro()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// of returns what was used altogether, on a day and in a task.
func of(ctx context.Context, db DB, seq int64, at time.Time, task string) (map[secrets.Per]secrets.Amounts, error) {
	out := map[secrets.Per]secrets.Amounts{}
	return out, each(ctx, db, ofSQL, []any{seq, day(at), task}, func(rows *sql.Rows) error {
		var scope string
		var a secrets.Amounts
		err := rows.Scan(&scope, &a.Requests, &a.Tokens, &a.MicroUSD)
		out[secrets.Per(scope)] = a
		return err
	})
}

// Settle changes what was counted of a request.
func Settle(ctx context.Context, db DB, by secrets.Spender, change secrets.Amounts) error {
	_, err := db.ExecContext(ctx, settleSQL, by.Secret, day(by.At), by.Task, change.Requests, change.Tokens, change.MicroUSD, by.Account)
	return err
}

// Of returns what was used of a secret, with the tasks that used most; sql.ErrNoRows if there is none.
func Of(ctx context.Context, db DB, account, name string, at time.Time, tasks int) (secrets.Spent, error) {
	out := secrets.Spent{Tasks: []secrets.TaskSpent{}}
	seq, _, err := budgetsOf(ctx, db, account, name)
	if err != nil {
		return out, err
	}
	have, err := of(ctx, db, seq, at, "")
	if err != nil {
		return out, err
	}
	out.Total, out.Today = have[secrets.PerTotal], have[secrets.PerDay]
	err = each(ctx, db, topSQL, []any{seq, tasks}, func(rows *sql.Rows) error {
		var t secrets.TaskSpent
		var at int64
		err := rows.Scan(&t.Task, &t.Requests, &t.Tokens, &t.MicroUSD, &at)
		t.At = time.UnixMicro(at).UTC()
		out.Tasks = append(out.Tasks, t)
		return err
	})
	return out, err
}

// each calls use with each row.
func each(ctx context.Context, db DB, query string, args []any, use func(*sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
