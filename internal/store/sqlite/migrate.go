package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func embedded() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the path above is not a valid one
	}
	return sub
}

// migrator migrates a database file to the newest schema of this binary.
type migrator struct {
	path string
	fsys fs.FS // numbered .sql files as goose wants them
	read *sql.DB
	log  *slog.Logger
}

// run migrates the database if its version is older. If there is nothing to do, it reads two
// rows and does not set up goose.
func (m *migrator) run(ctx context.Context) error {
	newest, err := newestVersion(m.fsys)
	if err != nil {
		return err
	}
	have, err := m.version(ctx, m.read)
	if code(err) == sqlite3.SQLITE_READONLY_ROLLBACK {
		if err = m.rollBack(ctx); err == nil {
			have, err = m.version(ctx, m.read)
		}
	}
	if err != nil {
		return err
	}
	if have == newest {
		return nil
	}
	if have > newest {
		return m.newer(have, newest)
	}
	return m.migrate(ctx, newest)
}

// rollBack rolls back a transaction that a crash interrupted before the database had its
// write-ahead log, when it was created. A read-only connection cannot.
func (m *migrator) rollBack(ctx context.Context) error {
	m.log.Warn("roll back an interrupted migration", "database", m.path)
	db, err := sql.Open("sqlite", dsn(m.path, rollingBack))
	if err == nil {
		var n int
		err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&n)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return wrapError(ctx, err, "roll back an interrupted migration in database %s", m.path)
	}
	return nil
}

func (m *migrator) newer(have, newest int64) error {
	return api.Errorf(api.KindConflict, "database %s has schema version %d, this binary supports versions up to %d", m.path, have, newest).
		WithHint("use the newer binary that wrote the database, or another --data-dir")
}

// newestVersion returns the highest number of the migration files.
func newestVersion(fsys fs.FS) (int64, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return 0, api.Errorf(api.KindInternal, "list migrations: %w", err)
	}
	var newest int64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, api.Errorf(api.KindInternal, "migration %s has no number: %w", name, err)
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// querier is a pool or a connection.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version returns the schema version of the database: 0 for an empty one.
func (m *migrator) version(ctx context.Context, q querier) (int64, error) {
	var all, versions int
	err := q.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(type = 'table' AND name = 'goose_db_version'), 0)
		FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`).Scan(&all, &versions)
	if err != nil {
		return 0, wrapError(ctx, err, "read the schema of database %s", m.path)
	}
	if all == 0 {
		return 0, nil
	}
	if versions == 0 {
		return 0, api.Errorf(api.KindConflict, "%s is not a hortus database", m.path).
			WithHint("use another --data-dir")
	}
	var n sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&n); err != nil {
		return 0, wrapError(ctx, err, "read the schema version of database %s", m.path)
	}
	return n.Int64, nil
}

// migrate runs all pending migrations in one transaction on one connection. The transaction
// acquires the write lock at its begin, so no row changes between the backup and the
// migration. If two processes migrate, the second one finds nothing to do.
func (m *migrator) migrate(ctx context.Context, newest int64) (err error) {
	start := time.Now()
	tx, err := beginOuterTx(ctx, m.read.Driver(), dsn(m.path, migrating))
	if err != nil {
		return wrapError(ctx, err, "begin the migration of database %s", m.path)
	}
	defer tx.close() // rolls back what is not committed

	have, err := m.version(ctx, tx.db)
	if err != nil {
		return err
	}
	if have == newest {
		return nil
	}
	if have > newest {
		return m.newer(have, newest)
	}
	backup := ""
	if have > 0 {
		if backup, err = m.backup(ctx, have); err != nil {
			return err
		}
		m.log.Info("database backed up before migration", "path", m.path, "backup", backup, "version", have)
	}
	if err := m.up(ctx, tx.db); err != nil {
		e := wrapError(ctx, err, "migrate database %s from version %d to %d", m.path, have, newest)
		return e.WithHint("nothing was changed; the binary that wrote the database can still use it")
	}
	if err := tx.commit(ctx); err != nil {
		return wrapError(ctx, err, "commit the migration of database %s", m.path)
	}
	if have > 0 {
		m.log.Info("database migrated", "path", m.path, "from", have, "to", newest, "backup", backup, "took", time.Since(start))
	}
	return nil
}

func (m *migrator) up(ctx context.Context, db *sql.DB) error {
	// Do not use the registry of Go migrations, which is global: ours are files.
	p, err := goose.NewProvider(goose.DialectSQLite3, db, m.fsys,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	var table string
	var row sql.NullInt64
	err = db.QueryRowContext(ctx, `SELECT "table", rowid FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &row)
	if err == nil {
		return api.Errorf(api.KindInternal, "row %d of table %s has a dangling reference after the migration", row.Int64, table)
	}
	if err != sql.ErrNoRows {
		return err
	}
	return nil
}
