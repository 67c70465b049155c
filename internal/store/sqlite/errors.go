package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

// wrapError sets the kind of an error of the driver. The format says which operation
// failed.
func wrapError(ctx context.Context, err error, format string, args ...any) *api.Error {
	what := fmt.Sprintf(format, args...)
	var already *api.Error
	if errors.As(err, &already) {
		e := api.Errorf(already.Kind, "%s: %w", what, err)
		e.Hint = already.Hint
		return e
	}
	// An interrupted statement reports the interruption, not its reason.
	if cause := ctx.Err(); cause != nil {
		return api.Errorf(api.KindOf(cause), "%s: %w", what, cause)
	}
	switch code(err) & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err).
			WithHint("another process is using the database; retry")
	case sqlite3.SQLITE_FULL:
		return api.Errorf(api.KindExhausted, "%s: %w", what, err).WithHint("free space on the disk of the database")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return api.Errorf(api.KindInternal, "%s: %w", what, err).
			WithHint("the file is damaged or not a database; restore a backup of it, or use another --data-dir")
	}
	// database/sql exports no value for these errors.
	if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" || err.Error() == "sql: statement is closed" {
		return api.Errorf(api.KindUnavailable, "%s: the database is closed", what)
	}
	return api.Errorf(api.KindInternal, "%s: %w", what, err)
}

// code is SQLite's extended result code, or 0.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// insertError is wrapError for an insert: a taken key is KindExists, and an owner or
// parent that does not exist is KindNotFound.
func insertError(ctx context.Context, err error, what, id, refersTo string) *api.Error {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return api.Errorf(api.KindExists, "%s %s already exists", what, id)
	}
	return updateError(ctx, err, what, id, refersTo)
}

func updateError(ctx context.Context, err error, what, id, refersTo string) *api.Error {
	if code(err) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY {
		return api.Errorf(api.KindNotFound, "%s %s refers to %s, which does not exist", what, id, refersTo)
	}
	if code(err) == sqlite3.SQLITE_CONSTRAINT_TRIGGER {
		return api.Errorf(api.KindConflict, "%s %s cannot be changed by %s, which has ended", what, id, refersTo)
	}
	return wrapError(ctx, err, "store %s %s", what, id)
}

func notFound(what, id string) *api.Error {
	return api.Errorf(api.KindNotFound, "unknown %s %.64q", what, id)
}

// toMicros returns an instant as it is stored: nil for the zero time.
func toMicros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// nullable returns nil for an empty identifier, which is stored as NULL.
func nullable[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// names returns states as text.
func names[S ~string](states ...S) (all []string) {
	for _, s := range states {
		all = append(all, string(s))
	}
	return all
}
