package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Config is the configuration of a database.
type Config struct {
	// Path of the database file. Its directory must exist; the file is made
	// with mode 0600 if it does not, and set to that mode if it does.
	Path string
	// Ahead stores rows of sandboxes and commands in a file beside the database (its
	// name with "-ahead") first and in the database a moment later. Use it if this
	// process is the only one that writes such rows and it creates their identifiers:
	// another process that has the database open sees them up to 0.1 s late.
	Ahead bool
	// Reserve is the size of a file beside the database (its name with "-reserve") whose
	// space is released when the disk is full, in bytes, for writes that free space; 0 means
	// none. One process may have it for a database: the one with Ahead.
	Reserve int64
	// Logger logs migrations and backups; nil discards them.
	Logger *slog.Logger
}

// DB is an open database: it implements store.Store. Its methods may be called from several
// goroutines.
type DB struct {
	write *sql.DB // one connection; transactions take the write lock at their begin
	read  *sql.DB // read-only connections
	ahead *ahead  // nil without Config.Ahead
	// reserve is nil without Config.Reserve.
	reserve *reserve
	// sealer encrypts secret values of rows.
	sealer *sealer

	// The rows that have a start, a state and a document.
	sandboxes    table[api.Sandbox, api.SandboxID]
	execs        table[api.Exec, api.ExecID]
	tasks        table[api.Task, api.TaskID]
	workspaces   table[api.Workspace, api.WorkspaceID]
	snapshots    table[api.Snapshot, api.SnapshotID]
	repositories table[api.Repository, api.RepositoryID]
	keys         table[api.Key, api.KeyID]

	// Prepared statements for events, commands, sandboxes and plans: parsing one costs as
	// much as running it.
	appendEvent, readEvents          *sql.Stmt
	insertExec, updateExec           *sql.Stmt
	insertSandbox, updateSandboxSame *sql.Stmt
	updatePlan, putItem, dropItems   *sql.Stmt
}

var _ store.Store = (*DB)(nil)

// readers is the maximum number of read-only connections. Each has its own page cache.
const readers = 4

// Open opens a database, and creates or migrates it if necessary. ctx bounds only the
// opening. The kind of an error is KindConflict for a file that another version wrote or that is
// not a database of Hortus (neither is changed), and KindNotFound if the directory does not exist.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	return open(ctx, cfg, schemaSteps())
}

func open(ctx context.Context, cfg Config, steps []string) (_ *DB, err error) {
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	path, err := filepath.Abs(cfg.Path)
	if err != nil || cfg.Path == "" {
		return nil, api.Errorf(api.KindInvalid, "database path %q: not a path", cfg.Path)
	}
	if err := makeFile(path, log); err != nil {
		return nil, err
	}
	var cleanup []*sql.DB
	db := &DB{}
	if db.reserve, err = openReserve(path, cfg.Reserve, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			db.reserve.close()
			for _, p := range cleanup {
				p.Close()
			}
		}
	}()
	pool := func(dsn string, n int) (*sql.DB, error) {
		p, err := sql.Open("sqlite", dsn)
		if err != nil {
			return nil, wrapError(ctx, err, "open database %s", path)
		}
		p.SetMaxOpenConns(n)
		p.SetMaxIdleConns(n)
		cleanup = append(cleanup, p)
		return p, nil
	}

	// The read-only connections come first: the schema is checked through one,
	// so a file that is refused is not written to.
	if db.read, err = pool(dsn(path, readOnly), readers); err != nil {
		return nil, err
	}
	file := schema{path: path, steps: steps, read: db.read, log: log}
	if err := file.prepare(ctx); err != nil {
		return nil, err
	}
	if db.sealer, err = openSealer(path); err != nil {
		return nil, err
	}
	if db.write, err = pool(dsn(path, readWrite), 1); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		pool *sql.DB
		sql  string
	}{
		{&db.appendEvent, db.write, appendEventSQL}, {&db.readEvents, db.read, readEventsSQL},
		{&db.insertExec, db.write, insertExecSQL}, {&db.updateExec, db.write, updateExecSQL},
		{&db.insertSandbox, db.write, insertSandboxSQL}, {&db.updateSandboxSame, db.write, updateSandboxSameSQL},
		{&db.updatePlan, db.write, updatePlanSQL}, {&db.putItem, db.write, putItemSQL}, {&db.dropItems, db.write, dropItemsSQL},
	} {
		if *p.stmt, err = p.pool.PrepareContext(ctx, p.sql); err != nil {
			return nil, wrapError(ctx, err, "open database %s", path)
		}
	}
	if cfg.Ahead {
		if db.ahead, err = openAhead(ctx, db, path, log); err != nil {
			return nil, err
		}
	}
	db.sandboxes, db.execs, db.tasks = sandboxTable(db), execTable(db), taskTable(db)
	db.workspaces, db.snapshots, db.repositories, db.keys = workspaceTable(db), snapshotTable(db), repositoryTable(db), keyTable(db)
	return db, nil
}

// Close waits for the calls that are running and closes the file. Later calls
// fail with KindUnavailable.
func (db *DB) Close() error {
	// The writer is closed last: the last connection merges the write-ahead log into
	// the file, which a read-only one cannot.
	err := db.ahead.close()
	for _, stmt := range []*sql.Stmt{db.appendEvent, db.readEvents, db.insertExec, db.updateExec, db.insertSandbox, db.updateSandboxSame, db.updatePlan, db.putItem, db.dropItems} {
		err = errors.Join(err, stmt.Close())
	}
	err = errors.Join(err, db.read.Close(), db.write.Close(), db.reserve.close())
	if err != nil {
		return wrapError(context.Background(), err, "close the database")
	}
	return nil
}

// The parameters of the kinds of connections. SQLite makes the files of its
// write-ahead log with the mode of the database file.
const (
	readOnly  = "mode=ro&_pragma=busy_timeout(5000)" + pageCache
	readWrite = "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)" +
		"&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)" + pageCache
	// SQLite's default is 2000 KiB for each connection. A daemon fills it within its
	// first thousand sandboxes, and it makes each fork of the daemon slower. The kernel
	// caches the file anyway.
	pageCache = "&_pragma=cache_size(-400)"
	// SQLite rolls back an interrupted transaction when it reads.
	rollingBack = "mode=rw&_pragma=busy_timeout(5000)"
	// Foreign keys are checked at the end of a migration instead of at each statement.
	migrating = "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(0)"
)

// dsn returns the data source name of a path, which may contain any character.
func dsn(path, params string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params
}

// makeFile creates an empty file of mode 0600, which is an empty database to SQLite, or
// makes an existing one private.
func makeFile(path string, log *slog.Logger) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindNotFound, "database %s: its directory does not exist", path)
	}
	if !errors.Is(err, fs.ErrExist) {
		return api.Errorf(api.KindInternal, "create database: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return api.Errorf(api.KindInternal, "open database: %w", err)
	}
	if !info.Mode().IsRegular() {
		return api.Errorf(api.KindConflict, "database %s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return api.Errorf(api.KindInternal, "database is accessible to other users: %w", err)
		}
		log.Warn("the database was accessible to other users; its mode is now 0600", "path", path, "was", info.Mode().Perm().String())
	}
	return nil
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
	if isFull(err) {
		return api.Errorf(api.KindExhausted, "%s: %w", what, err).WithHint("%s", freeSpace)
	}
	switch code(err) & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err).
			WithHint("another process is using the database; retry")
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
