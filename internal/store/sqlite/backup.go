package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// maxBackups is the maximum number of copies of one version, which accumulate if a
// migration fails repeatedly.
const maxBackups = 100

// backup writes a copy of the database beside it and returns its path: the database's
// name with ".bak-v<version>", then ".bak-v<version>.2" and so on. It never replaces a
// file. A copy gets its name when it is complete and synchronized. The caller holds the
// write lock, so only one process makes a backup at a time, of what it will migrate.
func (m *migrator) backup(ctx context.Context, version int64) (_ string, err error) {
	partial := fmt.Sprintf("%s.bak-v%d.partial", m.path, version)
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
	if err := m.vacuumInto(ctx, partial); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", api.Errorf(api.KindInternal, "write a backup of the database: %w", err)
	}
	for i := 1; i <= maxBackups; i++ {
		name := fmt.Sprintf("%s.bak-v%d", m.path, version)
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
	return "", api.Errorf(api.KindExhausted, "database %s already has %d backups of version %d", m.path, maxBackups, version).
		WithHint("remove old backups (%s.bak-v%d*)", m.path, version)
}

// vacuumInto copies over a separate connection, which sees the committed state while the
// migration's transaction is open.
func (m *migrator) vacuumInto(ctx context.Context, to string) error {
	db, err := sql.Open("sqlite", dsn(m.path, readOnly))
	if err != nil {
		return wrapError(ctx, err, "open database %s for a backup", m.path)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return wrapError(ctx, err, "write a backup of database %s", m.path)
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
