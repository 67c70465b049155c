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

// maxBackups bounds the copies of one version that may pile up when a migration
// fails again and again.
const maxBackups = 100

// backup writes a copy of the database beside it and gives its path: the
// database's name with ".bak-v<version>", then ".bak-v<version>.2" and so on.
// It never replaces a file of such a name, and a copy has it only when it is
// whole and on the disk. The caller holds the write lock, so that one process at
// a time is here and the copy is what the migration will change.
func (m *migrator) backup(ctx context.Context, version int64) (_ string, err error) {
	partial := fmt.Sprintf("%s.bak-v%d.partial", m.path, version)
	// A leftover of a process that died here.
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", api.Errorf(api.KindInternal, "remove an unfinished backup: %w", err)
	}
	defer os.Remove(partial)
	// SQLite writes into an empty file that is there, and keeps its mode.
	f, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "make a backup of the database: %w", err)
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
	return "", api.Errorf(api.KindExhausted, "database %s has %d backups of version %d already", m.path, maxBackups, version).
		WithHint("remove old backups (%s.bak-v%d*)", m.path, version)
}

// vacuumInto copies over a connection of its own, which sees the committed
// state beside the migration's open transaction.
func (m *migrator) vacuumInto(ctx context.Context, to string) error {
	db, err := sql.Open("sqlite", dsn(m.path, readOnly))
	if err != nil {
		return failed(ctx, err, "open database %s for a backup", m.path)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return failed(ctx, err, "write a backup of database %s", m.path)
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
