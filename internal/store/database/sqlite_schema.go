package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

// applicationID marks a file as a database of Hortus; "file" prints it.
const applicationID = 0x686f7274

// sqliteSchema brings a database file to the version that its steps lead to. The version is SQLite's
// user_version.
type sqliteSchema struct {
	path  string
	steps []string
	read  *sql.DB
	log   *slog.Logger
}

// prepare creates the tables of an empty file and migrates those of an older version. If there is
// nothing to do, it runs one statement.
func (s *sqliteSchema) prepare(ctx context.Context) error {
	have, err := s.version(ctx, s.read)
	if code(err) == sqlite3.SQLITE_READONLY_ROLLBACK {
		if err = s.rollBack(ctx); err == nil {
			have, err = s.version(ctx, s.read)
		}
	}
	if err != nil || have == len(s.steps) {
		return err
	}
	return s.migrate(ctx)
}

// version returns the version of a database, 0 for an empty one. It refuses a database that is
// not ours, or of a version that this binary cannot read.
func (s *sqliteSchema) version(ctx context.Context, r runner) (int, error) {
	var tables, development, application, version int
	err := r.QueryRowContext(ctx, `
		SELECT
			(SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'),
			(SELECT count(*) FROM sqlite_schema WHERE name = 'goose_db_version'),
			(SELECT application_id FROM pragma_application_id),
			(SELECT user_version FROM pragma_user_version)`).Scan(&tables, &development, &application, &version)
	switch {
	case err != nil:
		return 0, wrapError(ctx, err, "read the schema of database %s", s.path)
	case tables == 0:
		return 0, nil
	case development > 0:
		return 0, api.Errorf(api.KindConflict, "%s is a data directory of a development version of hortus, which this version cannot read", filepath.Dir(s.path)).
			WithHint("move it away, or remove it with the version that wrote it (\"hortus uninstall\"), or use another --data-dir")
	case application != applicationID || version == 0:
		return 0, api.Errorf(api.KindConflict, "%s is not a hortus database", s.path).
			WithHint("use another --data-dir")
	case version > len(s.steps):
		return 0, api.Errorf(api.KindConflict, "database %s has schema version %d, this binary supports versions up to %d", s.path, version, len(s.steps)).
			WithHint("use the newer binary that wrote the database, or another --data-dir")
	}
	return version, nil
}

// rollBack rolls back a transaction that a crash interrupted before the database had its
// write-ahead log, when it was created. A read-only connection cannot.
func (s *sqliteSchema) rollBack(ctx context.Context) error {
	s.log.Warn("roll back an interrupted transaction", "database", s.path)
	db, err := sql.Open("sqlite", dsn(s.path, rollingBack))
	if err == nil {
		var n int
		err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&n)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return wrapError(ctx, err, "roll back an interrupted transaction in database %s", s.path)
	}
	return nil
}

// migrate runs all pending steps in one transaction. It has the write lock from its begin, so no
// row changes between the backup and the steps. If two processes migrate, the second one finds
// nothing to do.
func (s *sqliteSchema) migrate(ctx context.Context) error {
	start, newest := time.Now(), len(s.steps)
	db, err := sql.Open("sqlite", dsn(s.path, migrating))
	if err != nil {
		return wrapError(ctx, err, "open database %s", s.path)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "begin the migration of database %s", s.path)
	}
	defer tx.Rollback()
	have, err := s.version(ctx, tx)
	if err != nil || have == newest {
		return err
	}
	backup := ""
	if have > 0 {
		if backup, err = s.backup(ctx, have); err != nil {
			return err
		}
		s.log.Info("database backed up before migration", "path", s.path, "backup", backup, "version", have)
	}
	if err := s.apply(ctx, tx, have); err != nil {
		return wrapError(ctx, err, "migrate database %s from version %d to %d", s.path, have, newest).
			WithHint("nothing was changed; the binary that wrote the database can still use it")
	}
	if err := tx.Commit(); err != nil {
		return wrapError(ctx, err, "commit the migration of database %s", s.path)
	}
	if have > 0 {
		s.log.Info("database migrated", "path", s.path, "from", have, "to", newest, "backup", backup, "took", time.Since(start))
	}
	return nil
}

// apply runs the steps after a version. References are checked at the end, so that a step can
// rebuild a table that others refer to.
func (s *sqliteSchema) apply(ctx context.Context, tx *sql.Tx, have int) error {
	for _, step := range s.steps[have:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	var table string
	var row sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT "table", rowid FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &row)
	if err == nil {
		return api.Errorf(api.KindInternal, "row %d of table %s has a dangling reference after the migration", row.Int64, table)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(s.steps)))
	return err
}

// maxBackups is the maximum number of copies of one version, which accumulate if a
// migration fails repeatedly.
const maxBackups = 100

// backup writes a copy of the database beside it and returns its path: the database's
// name with ".bak-v<version>", then ".bak-v<version>.2" and so on. It never replaces a
// file. A copy gets its name when it is complete and synchronized. The caller holds the
// write lock, so only one process makes a backup at a time, of what it will migrate.
func (s *sqliteSchema) backup(ctx context.Context, version int) (_ string, err error) {
	partial := fmt.Sprintf("%s.bak-v%d.partial", s.path, version)
	// Left by a process that died here.
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", api.Errorf(api.KindInternal, "remove an unfinished backup: %w", err)
	}
	defer os.Remove(partial)
	// SQLite writes into an existing empty file and keeps its mode.
	f, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "create a backup of the database: %w", err)
	}
	defer f.Close()
	if err := s.vacuumInto(ctx, partial); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", api.Errorf(api.KindInternal, "write a backup of the database: %w", err)
	}
	for i := 1; i <= maxBackups; i++ {
		name := fmt.Sprintf("%s.bak-v%d", s.path, version)
		if i > 1 {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		// A hard link, unlike a rename, fails if the name is taken.
		err := os.Link(partial, name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", api.Errorf(api.KindInternal, "name a backup of the database: %w", err)
		}
		return name, syncDir(filepath.Dir(name))
	}
	return "", api.Errorf(api.KindExhausted, "database %s already has %d backups of version %d", s.path, maxBackups, version).
		WithHint("remove old backups (%s.bak-v%d*)", s.path, version)
}

// vacuumInto copies over a separate connection, which sees the committed state while the
// migration's transaction is open.
func (s *sqliteSchema) vacuumInto(ctx context.Context, to string) error {
	db, err := sql.Open("sqlite", dsn(s.path, readOnly))
	if err != nil {
		return wrapError(ctx, err, "open database %s for a backup", s.path)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO $1", to); err != nil {
		return wrapError(ctx, err, "write a backup of database %s", s.path)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return api.Errorf(api.KindInternal, "open the database's directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return api.Errorf(api.KindInternal, "synchronize the database's directory: %w", err)
	}
	return nil
}
