package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

// failure is what an error of a driver means.
type failure int

const (
	unknownFailure failure = iota
	taken                  // a key exists already
	dangling               // a row that another one refers to does not exist
	ownerEnded             // the new owner of a row has ended
	collided               // another transaction was in the way: the same one may succeed now
	busy                   // another process is in the way
	full                   // the disk is full
	damaged                // the file is not a database
	unreachable            // there is no connection to the server
	refused                // the server does not allow it
	closed                 // this process closed the database
)

// sqliteFailures are the extended and the plain result codes of SQLite.
var sqliteFailures = map[int]failure{
	sqlite3.SQLITE_CONSTRAINT_UNIQUE: taken, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: taken,
	sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: dangling, sqlite3.SQLITE_CONSTRAINT_TRIGGER: ownerEnded,
	sqlite3.SQLITE_BUSY: busy, sqlite3.SQLITE_LOCKED: busy,
	sqlite3.SQLITE_FULL: full, sqlite3.SQLITE_IOERR_SHMSIZE: full, // the shared memory of its log
	sqlite3.SQLITE_CORRUPT: damaged, sqlite3.SQLITE_NOTADB: damaged,
}

// postgresFailures are the states of Postgres, and their classes of two characters.
var postgresFailures = map[string]failure{
	"23505": taken, "23503": dangling, "HO001": ownerEnded,
	"40001": collided, "40P01": collided, "55P03": busy, "25P03": busy,
	"53100": full, "53": unreachable, // too many connections, no memory
	"08": unreachable, "57P01": unreachable, "57P02": unreachable, "57P03": unreachable,
	"25006": unreachable, // a standby after a failover: it does not write
	"28":    refused, "42501": refused,
}

// failureOf classifies an error, also one that is wrapped.
func failureOf(err error) failure {
	var lite *sqlite.Error
	var server *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, new(*connectError)):
		return unreachable
	case errors.As(err, &lite):
		if f, ok := sqliteFailures[lite.Code()]; ok {
			return f
		}
		return sqliteFailures[lite.Code()&0xff]
	case errors.As(err, &server):
		if f, ok := postgresFailures[server.Code]; ok {
			return f
		}
		return postgresFailures[server.Code[:min(2, len(server.Code))]]
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return full
	case isLost(err):
		return unreachable
	case errors.Is(err, sql.ErrConnDone), err.Error() == "sql: database is closed", err.Error() == "sql: statement is closed":
		return closed // database/sql exports no value for most of these errors
	}
	return unknownFailure
}

// code is SQLite's extended result code, or 0.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

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
	switch failureOf(err) {
	case full:
		return api.Errorf(api.KindExhausted, "%s: %w", what, err).WithHint("%s", freeSpace)
	case busy, collided:
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err).
			WithHint("another process is using the database; retry")
	case damaged:
		return api.Errorf(api.KindInternal, "%s: %w", what, err).
			WithHint("the file is damaged or not a database; restore a backup of it, or use another --data-dir")
	case unreachable:
		var connect *connectError
		if errors.As(err, &connect) {
			return connect.explain(api.KindUnavailable, fmt.Errorf("%s: %w", what, err))
		}
		if errors.As(err, new(commitError)) && inDoubt(err) {
			return api.Errorf(api.KindUnavailable, "%s: the Postgres server did not answer, so that it is not known whether it was stored: %w", what, err).
				WithHint("look whether it is there before you try again")
		}
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err).WithHint("the Postgres server is not available; retry when it is")
	case closed:
		return api.Errorf(api.KindUnavailable, "%s: the database is closed", what)
	}
	return api.Errorf(api.KindInternal, "%s: %w", what, err)
}

// insertError is wrapError for an insert: a taken key is KindExists, and an owner or
// parent that does not exist is KindNotFound.
func insertError(ctx context.Context, err error, what, id, refersTo string) *api.Error {
	if failureOf(err) == taken {
		return api.Errorf(api.KindExists, "%s %s already exists", what, id)
	}
	return updateError(ctx, err, what, id, refersTo)
}

func updateError(ctx context.Context, err error, what, id, refersTo string) *api.Error {
	switch failureOf(err) {
	case dangling:
		return api.Errorf(api.KindNotFound, "%s %s refers to %s, which does not exist", what, id, refersTo)
	case ownerEnded:
		return api.Errorf(api.KindConflict, "%s %s cannot be changed by %s, which has ended", what, id, refersTo)
	}
	return wrapError(ctx, err, "store %s %s", what, id)
}

func notFound(what, id string) *api.Error {
	return api.Errorf(api.KindNotFound, "unknown %s %.64q", what, id)
}
