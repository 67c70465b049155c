package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"hortus.dev/api"
)

// SQLite is the configuration of a database in a file.
type SQLite struct {
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

// readers is the maximum number of read-only connections. Each has its own page cache.
const readers = 4

// OpenSQLite opens a database in a file, and creates or migrates it if necessary. ctx bounds only the
// opening. The kind of an error is KindConflict for a file that another version wrote or that is
// not a database of Hortus (neither is changed), and KindNotFound if the directory does not exist.
func OpenSQLite(ctx context.Context, cfg SQLite) (*DB, error) {
	return openSQLite(ctx, cfg, schemaSteps("sqlite"))
}

func openSQLite(ctx context.Context, cfg SQLite, steps []string) (_ *DB, err error) {
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	path, err := filepath.Abs(cfg.Path)
	if err != nil || cfg.Path == "" {
		return nil, api.Errorf(api.KindInvalid, "database path %q: not a path", cfg.Path)
	}
	if err := makeFile(path, log); err != nil {
		return nil, err
	}
	var cleanup []*sql.DB
	db := &DB{dialect: sqliteDialect(path), file: path}
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
	open := func(dsn string, n int) (pool, error) {
		p, err := sql.Open("sqlite", dsn)
		if err != nil {
			return pool{}, wrapError(ctx, err, "open database %s", path)
		}
		p.SetMaxOpenConns(n)
		p.SetMaxIdleConns(n)
		cleanup = append(cleanup, p)
		return pool{DB: p}, nil
	}

	// The read-only connections come first: the schema is checked through one,
	// so a file that is refused is not written to.
	if db.read, err = open(dsn(path, readOnly), readers); err != nil {
		return nil, err
	}
	file := sqliteSchema{path: path, steps: steps, read: db.read.DB, log: log}
	if err := file.prepare(ctx); err != nil {
		return nil, err
	}
	if db.sealer, err = openSealer(path+keySuffix, "restore it from a backup; without it, secrets and environment values of sandboxes and tasks cannot be decrypted: to give them up, remove the file"); err != nil {
		return nil, err
	}
	if db.write, err = open(dsn(path, readWrite), 1); err != nil {
		return nil, err
	}
	db.lease = db.write
	if err := db.prepare(ctx); err != nil {
		return nil, err
	}
	if cfg.Ahead {
		if db.ahead, err = openAhead(ctx, db, path+aheadSuffix, log); err != nil {
			return nil, err
		}
	}
	db.describeTables()
	return db, nil
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
