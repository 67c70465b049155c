package database

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"hortus.dev/api"
)

// copiedTables are the tables with rows, those that others refer to first, and the columns that order the rows of each: the
// same rows have the same order in both databases.
var copiedTables = []struct{ name, order string }{
	{"owner", "id"}, {"node", "id"}, {"sandbox", "seq"}, {"exec", "seq"}, {"task", "seq"}, {"attempt", "task, n"}, {"task_tally", "account, day"},
	{"run", "seq"}, {"run_step", "seq"}, {"session", "seq"}, {"session_turn", "session, n"}, {"workspace", "seq"}, {"snapshot", "seq"},
	{"repository", "seq"}, {"hook_event", "rowid"}, {"event", "stream_kind, stream_id, seq"}, {"lifecycle", "seq"},
	{"api_key", "seq"}, {"sign_in", "seq"}, {"once", "seq"}, {"egress", "seq"}, {"secret", "seq"}, {"secret_use", "seq"},
	{"secret_spent", "secret, scope, key"}, {"lesson", "seq"}, {"lesson_vector", "lesson"}, {"webhook", "seq"}, {"webhook_delivery", "seq"},
	{"volume", "seq"}, {"document", "account, repository, name, version"}, {"plan", "seq"}, {"plan_item", "plan, n"},
	{"shared_value", "name"}, {"leader", "name"},
}

// Bounds of a statement that inserts copied rows: Postgres has 65,535 parameters at most.
const (
	maxCopiedValues = 10_000
	maxCopiedBytes  = 4 << 20
)

// Copied is what Copy has done with a table so far.
type Copied struct {
	Table string
	Rows  int64
	// Verified is set once all rows were read again from both databases and found equal.
	Verified bool
}

// Copy copies all rows of a SQLite database that nobody else uses to a Postgres database that has none, and compares each
// of them with the original. Everything is one transaction: if it fails or the process dies, the target stays empty. If an
// earlier Copy of the same source was committed, nothing is left to do. Copy calls report again and again.
//
// KindConflict if the target has other rows, or another key than the source.
func Copy(ctx context.Context, from, to *DB, report func(Copied)) (err error) {
	c := copier{from: from, report: report}
	if c.source, err = sourceOf(from); err != nil {
		return err
	}
	return to.tryTx(ctx, "copied rows", func(tx *sql.Tx) error {
		c.tx = tx
		return c.run(ctx)
	})
}

// sourceOf identifies a SQLite database by its key.
func sourceOf(db *DB) (string, error) {
	key, err := os.ReadFile(db.file + keySuffix)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "read the key of database %s: %w", db.file, err)
	}
	sum := sha256.Sum256(append([]byte("hortus source "), key...))
	return hex.EncodeToString(sum[:]), nil
}

// copier copies in a transaction of the target.
type copier struct {
	from   *DB
	tx     *sql.Tx
	source string
	report func(Copied)
}

func (c *copier) run(ctx context.Context) error {
	// Other daemons wait, and see either no row or all of them.
	if _, err := c.tx.ExecContext(ctx, `LOCK TABLE identity, owner IN ACCESS EXCLUSIVE MODE`); err != nil {
		return wrapError(ctx, err, "lock the target")
	}
	have, err := scanValue[sql.NullString](c.tx.QueryRowContext(ctx, `SELECT source FROM identity`))
	if err != nil {
		return wrapError(ctx, err, "read the identity of the target")
	}
	if have.String == c.source {
		return nil
	}
	if err := c.checkEmpty(ctx); err != nil {
		return err
	}
	for _, t := range copiedTables {
		if err := c.copyTable(ctx, t.name, t.order); err != nil {
			return err
		}
	}
	if err := c.continueNumbers(ctx); err != nil {
		return err
	}
	for _, t := range copiedTables {
		n, err := c.verifyTable(ctx, t.name, t.order)
		if err != nil {
			return err
		}
		c.report(Copied{Table: t.name, Rows: n, Verified: true})
	}
	if _, err := c.tx.ExecContext(ctx, `UPDATE identity SET source = $1`, c.source); err != nil {
		return wrapError(ctx, err, "record the source")
	}
	return nil
}

// checkEmpty refuses a target with rows. A daemon that has started once leaves a row of itself.
func (c *copier) checkEmpty(ctx context.Context) error {
	for _, t := range copiedTables {
		var some bool
		if err := c.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.name+`)`).Scan(&some); err != nil {
			return wrapError(ctx, err, "read table %s of the target", t.name)
		}
		if some {
			return api.Errorf(api.KindConflict, "the target already has rows, of another installation or of a daemon that was started with it: table %s", t.name).
				WithHint("use an empty database: createdb NAME")
		}
	}
	return nil
}

// columns returns the columns of a table that are copied: those of the target that are not generated from others, except the
// number of insertion of lifecycle events, which the source does not have.
func (c *copier) columns(ctx context.Context, table string) ([]string, error) {
	return list(ctx, c.tx, "columns", scanValue[string], `
		SELECT column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER' AND (table_name, column_name) <> ('lifecycle', 'id')
		ORDER BY ordinal_position`, table)
}

// copyTable copies the rows of a table without its triggers: what they would do is in the copied tables already.
func (c *copier) copyTable(ctx context.Context, table, order string) error {
	columns, err := c.columns(ctx, table)
	if err != nil {
		return err
	}
	if _, err := c.tx.ExecContext(ctx, `ALTER TABLE `+table+` DISABLE TRIGGER USER`); err != nil {
		return wrapError(ctx, err, "disable the triggers of table %s", table)
	}
	var values []any
	var size int
	var n int64
	flush := func() error {
		if len(values) == 0 {
			return nil
		}
		c.report(Copied{Table: table, Rows: n})
		_, err := c.tx.ExecContext(ctx, insertMany(table, columns, len(values)/len(columns)), values...)
		values, size = nil, 0
		if err != nil {
			return wrapError(ctx, err, "copy rows of table %s", table)
		}
		return nil
	}
	query := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + table + ` ORDER BY ` + order
	err = each(ctx, c.from.read, "rows of table "+table, query, nil, func(r scanner) (bool, error) {
		row, bytes, err := scanAny(r, len(columns))
		if err != nil {
			return false, err
		}
		values, size, n = append(values, row...), size+bytes, n+1
		if len(values)+len(columns) <= maxCopiedValues && size < maxCopiedBytes {
			return true, nil
		}
		return true, flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		if _, err = c.tx.ExecContext(ctx, `ALTER TABLE `+table+` ENABLE TRIGGER USER`); err != nil {
			err = wrapError(ctx, err, "enable the triggers of table %s", table)
		}
	}
	return err
}

// insertMany returns a statement that inserts a number of rows.
func insertMany(table string, columns []string, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", table, strings.Join(columns, ", "))
	for i := range rows * len(columns) {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%len(columns) == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	b.WriteString(")")
	return b.String()
}

// scanAny reads the values of a row, and their size.
func scanAny(r scanner, columns int) (row []any, size int, err error) {
	row = make([]any, columns)
	to := make([]any, columns)
	for i := range to {
		to[i] = &row[i]
	}
	err = r.Scan(to...)
	for i, v := range row {
		switch v := v.(type) {
		case string:
			size += len(v)
		case []byte:
			row[i] = blob(v) // an empty one is read as a nil slice, which would be stored as NULL
			size += len(v)
		}
	}
	return row, size, err
}

// continueNumbers has the next rows follow the largest number that the source ever gave.
func (c *copier) continueNumbers(ctx context.Context) error {
	used := map[string]int64{}
	err := each(ctx, c.from.read, "numbers", `SELECT name, seq FROM sqlite_sequence`, nil, func(r scanner) (bool, error) {
		var name string
		var seq int64
		err := r.Scan(&name, &seq)
		used[name] = seq
		return true, err
	})
	if err != nil {
		return err
	}
	if _, err := c.tx.ExecContext(ctx, `UPDATE lifecycle_newest SET seq = $1`, used["lifecycle"]); err != nil {
		return wrapError(ctx, err, "set the next number of lifecycle events")
	}
	for _, t := range copiedTables {
		for _, column := range []string{"seq", "rowid"} {
			next := fmt.Sprintf(`
				SELECT setval(pg_get_serial_sequence('%[1]s', '%[2]s'), greatest($1, coalesce(max(%[2]s), 0)) + 1, false) FROM %[1]s`, t.name, column)
			names, err := c.columns(ctx, t.name)
			if err != nil {
				return err
			}
			if !slices.Contains(names, column) || t.name == "event" || t.name == "lifecycle" {
				continue
			}
			if _, err := c.tx.ExecContext(ctx, next, used[t.name]); err != nil {
				return wrapError(ctx, err, "set the next number of table %s", t.name)
			}
		}
	}
	return nil
}

// verifyTable compares all rows of a table in both databases.
func (c *copier) verifyTable(ctx context.Context, table, order string) (n int64, err error) {
	columns, err := c.columns(ctx, table)
	if err != nil {
		return 0, err
	}
	query := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + table + ` ORDER BY ` + order
	there, err := c.tx.QueryContext(ctx, query)
	if err != nil {
		return 0, wrapError(ctx, err, "read the copied rows of table %s", table)
	}
	defer there.Close()
	differ := func(what string) error {
		return api.Errorf(api.KindInternal, "the copy of table %s is not like the original: %s in row %d", table, what, n+1).
			WithHint("nothing was copied; report this error")
	}
	err = each(ctx, c.from.read, "rows of table "+table, query, nil, func(r scanner) (bool, error) {
		want, _, err := scanAny(r, len(columns))
		if err != nil {
			return false, err
		}
		if !there.Next() {
			return false, differ("the end of the copy")
		}
		got, _, err := scanAny(there, len(columns))
		if err != nil {
			return false, err
		}
		for i := range want {
			if !sameValue(want[i], got[i]) {
				return false, differ("column " + columns[i])
			}
		}
		n++
		return true, nil
	})
	if err == nil && there.Next() {
		err = differ("one more")
	}
	if err == nil && there.Err() != nil {
		err = wrapError(ctx, there.Err(), "read the copied rows of table %s", table)
	}
	return n, err
}

// sameValue compares values of SQLite and Postgres.
func sameValue(a, b any) bool {
	x, isBytes := a.([]byte)
	y, areBytes := b.([]byte)
	if isBytes && areBytes {
		return bytes.Equal(x, y)
	}
	return a == b
}
