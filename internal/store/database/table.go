package database

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

// mayWrite is the fence of rows: an owner ($2) writes its own, and takes over those of an owner that has ended, or of none.
const mayWrite = `(owner IS NOT DISTINCT FROM $2 OR owner IS NULL OR owner IN (SELECT id FROM owner WHERE ended_at IS NOT NULL))`

// table has what is the same for each family of rows. T is what a row stores: an identifier, a
// start, a state and a document, and columns of its own.
type table[T any, ID ~string] struct {
	db    *DB
	ahead *ahead // nil if rows are stored in the database at once
	// what names a row in errors, plural several; name is the table's.
	what, plural, name string
	// letter begins an identifier, start is the column with the start of a row.
	letter, start string

	// selectSQL reads what scan scans, and ends with the table.
	selectSQL string
	scan      func(scanner) (T, error)
	// mark returns the start and the identifier of a row.
	mark func(T) (time.Time, ID)
	// states are the states of a row.
	states []string
	// values returns what the statements below take before the document: an identifier, the
	// owner, a state and others.
	values func(T) []any
	// document returns what to store as the document; nil means the row itself.
	document func(T) (any, error)

	// insertSQL stores a new row, and updateSQL replaces one unless its state is final: a new
	// owner increments the lease epoch. Then adoptSQL gives the children of the row ($1) their
	// new owner ($2); "" if there are none.
	insertSQL, updateSQL, adoptSQL string
}

// args validates a row and returns its values and its document.
func (t *table[T, ID]) args(v T) ([]any, error) {
	args := t.values(v)
	state, _ := args[2].(string)
	start, id := t.mark(v)
	if err := t.validate(id, start, state); err != nil {
		return nil, err
	}
	var doc any = v
	if t.document != nil {
		var err error
		if doc, err = t.document(v); err != nil {
			return nil, err
		}
	}
	b, err := rowjson.Marshal(doc)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s %s: %w", t.what, id, err)
	}
	return append(args, string(b)), nil
}

// validate checks what every row needs: an identifier, a start and a known state.
func (t *table[T, ID]) validate(id ID, start time.Time, state string) error {
	if id == "" {
		return api.Errorf(api.KindInvalid, "row of a %s: the id is missing", t.what)
	}
	if start.IsZero() {
		return api.Errorf(api.KindInvalid, "%s %s: the start time is missing", t.what, id)
	}
	if !slices.Contains(t.states, state) {
		return api.Errorf(api.KindInvalid, "%s %s: unknown state %.64q", t.what, id, state)
	}
	return nil
}

// insert stores a new row.
func (t *table[T, ID]) insert(ctx context.Context, v T) error {
	args, err := t.args(v)
	if err != nil {
		return err
	}
	if err := t.db.mayGrow(t.what + " " + args[0].(string)); err != nil {
		return err
	}
	err = t.db.insertOnce(ctx, func() error { _, err := t.db.write.ExecContext(ctx, t.insertSQL, args...); return err })
	return t.insertError(ctx, err, args)
}

func (t *table[T, ID]) insertError(ctx context.Context, err error, args []any) error {
	if err != nil {
		return insertError(ctx, err, t.what, args[0].(string), ownerOf(args))
	}
	return nil
}

// ownerOf names the owner among the values of a row.
func ownerOf(args []any) string {
	owner, _ := args[1].(string)
	return "owner " + owner
}

// update replaces a row. A new owner increments the lease epoch and takes over the children
// of the row.
func (t *table[T, ID]) update(ctx context.Context, v T) error {
	args, err := t.args(v)
	if err != nil {
		return err
	}
	return t.updateArgs(ctx, args)
}

func (t *table[T, ID]) updateArgs(ctx context.Context, args []any) error {
	return t.db.sameTx(ctx, t.what+" "+args[0].(string), func(tx *sql.Tx, _ bool) error { return t.updateIn(ctx, tx, args) })
}

// updateIn is update in a transaction.
func (t *table[T, ID]) updateIn(ctx context.Context, tx *sql.Tx, args []any) error {
	id := args[0].(string)
	r, err := tx.ExecContext(ctx, t.updateSQL, args...)
	if err != nil {
		return updateError(ctx, err, t.what, id, ownerOf(args))
	}
	if !changed(r) {
		return t.conflict(ctx, tx, id, args[1], args[2])
	}
	if t.adoptSQL == "" {
		return nil
	}
	if _, err = tx.ExecContext(ctx, t.adoptSQL, args[:2]...); err != nil {
		return wrapError(ctx, err, "store the owner of %s %s", t.what, id)
	}
	return nil
}

// change reads a row, has it changed, and stores it, while nothing else changes it. It may call f more than once.
func (t *table[T, ID]) change(ctx context.Context, id ID, f func(*T) error) (v T, err error) {
	err = t.db.inTx(ctx, t.what+" "+string(id), func(tx *sql.Tx) error {
		v, err = get(ctx, tx, t.what, string(id), t.scan, t.db.dialect.adapt(t.selectSQL+" WHERE id = $1 FOR UPDATE"))
		if err == nil {
			err = f(&v)
		}
		if err != nil {
			return err
		}
		args, err := t.args(v)
		if err != nil {
			return err
		}
		return t.updateIn(ctx, tx, args)
	})
	return v, err
}

// conflict explains why an update changed nothing: the row does not exist, is another living owner's, or its state is
// final.
func (t *table[T, ID]) conflict(ctx context.Context, tx *sql.Tx, id string, owner, state any) error {
	var fenced bool
	err := tx.QueryRowContext(ctx, "SELECT NOT "+mayWrite+" FROM "+t.name+" WHERE id = $1", id, owner).Scan(&fenced)
	if err == nil && fenced {
		return api.Errorf(api.KindConflict, "%s %s belongs to another daemon, which has not ended", t.what, id)
	}
	return t.final(ctx, tx, id, state)
}

// final is the error for an update of a row that does not exist, or whose state is final.
func (t *table[T, ID]) final(ctx context.Context, tx *sql.Tx, id string, state any) error {
	have, err := get(ctx, tx, t.what, id, scanValue[string], "SELECT state FROM "+t.name+" WHERE id = $1")
	if err != nil {
		return err
	}
	return api.Errorf(api.KindConflict, "%s %s is %s, which is final; it cannot become %s", t.what, id, have, state)
}

// get reads the row with an identifier.
func (t *table[T, ID]) get(ctx context.Context, r runner, id ID) (v T, err error) {
	if err := t.ahead.flushRead(ctx); err != nil {
		return v, err
	}
	return get(ctx, r, t.what, string(id), t.scan, t.selectSQL+" WHERE id = $1")
}

// list reads at most limit rows, newest first; limit 0 means all.
func (t *table[T, ID]) list(ctx context.Context, r runner, w where, limit int) ([]T, error) {
	if err := t.ahead.flushRead(ctx); err != nil {
		return nil, err
	}
	q, args := w.query(t.selectSQL, t.start+" DESC, seq DESC", limit)
	return list(ctx, r, t.plural, t.scan, q, args...)
}

// listLive lists the rows that live says live; with all, the newest of all.
func (t *table[T, ID]) listLive(ctx context.Context, live string, all bool) ([]T, error) {
	if all {
		return t.list(ctx, t.db.read, where{}, store.MaxListed)
	}
	return t.list(ctx, t.db.read, where{conds: []string{live}}, 0)
}

// cursor returns the position after a row.
func (t *table[T, ID]) cursor(v T) store.Cursor {
	at, id := t.mark(v)
	return store.Cursor{At: at, ID: string(id)}
}

// page reads a page and the cursor of the next. If the cursor's row was removed, the other rows of
// the same instant are listed again.
func (t *table[T, ID]) page(ctx context.Context, w where, p api.PageRequest) ([]T, string, error) {
	rows, next, err := t.pageIn(ctx, t.db.read, w, p)
	return rows, next.Token(), err
}

// pageIn is page in a transaction.
func (t *table[T, ID]) pageIn(ctx context.Context, r runner, w where, p api.PageRequest) ([]T, store.Cursor, error) {
	limit, after, err := store.Page(p)
	if err != nil {
		return nil, after, err
	}
	if err := t.ahead.flushRead(ctx); err != nil {
		return nil, after, err
	}
	if !after.IsZero() {
		w.and("("+t.start+", seq) < (?, coalesce((SELECT seq FROM "+t.name+" WHERE id = ?), 9223372036854775807))",
			after.At.UnixMicro(), after.ID)
	}
	q, args := w.query(t.selectSQL, t.start+" DESC, seq DESC", limit+1)
	return page(ctx, r, t.plural, limit, t.scan, t.cursor, q, args)
}

// maxPrefix is the maximum length of a prefix, in bytes; identifiers are shorter.
const maxPrefix = 64

// maxNamedMatches is the maximum number of matches in an error.
const maxNamedMatches = 5

// find returns the identifier that begins with a prefix, with or without its letter.
func (t *table[T, ID]) find(ctx context.Context, account, prefix string) (ID, error) {
	if prefix == "" {
		return "", api.Errorf(api.KindInvalid, "the id of a %s is missing", t.what)
	}
	if len(prefix) > maxPrefix {
		return "", notFound(t.what, prefix)
	}
	if err := t.ahead.flushRead(ctx); err != nil {
		return "", err
	}
	// Ranges instead of a pattern, so that no character of the prefix is special.
	query := `SELECT id FROM ` + t.name + `
		WHERE (id >= $1 AND id < $2 OR id >= $3 AND id < $4) AND ($6 = '' OR account = $6)
		ORDER BY id LIMIT $5`
	matches, err := list(ctx, t.db.read, t.what+" ids", scanValue[string], query,
		prefix, prefixEnd(prefix), t.letter+prefix, prefixEnd(t.letter+prefix), maxNamedMatches+1, account)
	if err != nil {
		return "", err
	}
	switch len(matches) {
	case 0:
		return "", notFound(t.what, prefix)
	case 1:
		return ID(matches[0]), nil
	}
	for _, id := range matches {
		if id == prefix {
			return ID(id), nil
		}
	}
	more := ""
	if len(matches) > maxNamedMatches {
		matches, more = matches[:maxNamedMatches], " and more"
	}
	return "", api.Errorf(api.KindInvalid, "%s %q is ambiguous: %s%s", t.what, prefix, strings.Join(matches, ", "), more).
		WithHint("give more characters of the id")
}

// prefixEnd returns the least string above all strings that begin with prefix, which is
// not empty. An identifier has no byte 0xFF, so the result does not matter for a prefix
// that ends in one.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	if last := len(b) - 1; b[last] < 0xFF {
		b[last]++
	}
	return string(b)
}
