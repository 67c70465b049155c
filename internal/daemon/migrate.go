package daemon

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/store/database"
)

// MigrateOptions say which rows MigrateStore copies. To is empty for the database in the configuration.
type MigrateOptions struct {
	DataDir, ConfigFile, To string
	// Report is called with the rows of each table that were copied so far, and then once when they were verified.
	Report func(table string, rows int64, verified bool)
}

// MigrateStore copies the rows of a data directory that no daemon uses to a Postgres database without rows, and returns its
// place. From then on the data directory belongs to that database; its file stays as it was. If it ends before that, it
// can run again.
func MigrateStore(ctx context.Context, opt MigrateOptions) (place string, err error) {
	set, err := loadSettings(opt.ConfigFile, map[string]*string{"data-dir": &opt.DataDir, "store": &opt.To})
	if err != nil {
		return "", err
	}
	if set.Store.URL == "" {
		return "", api.Errorf(api.KindInvalid, "the address of the Postgres database is missing").WithHint("set it: --to postgres://USER@HOST/NAME, or store.url")
	}
	dir := datadir.Dir(set.DataDir)
	if _, err := os.Stat(dir.Database()); err != nil {
		return "", api.Errorf(api.KindNotFound, "data directory %s has no rows: %w", dir, err).WithHint("set the right one: --data-dir DIR")
	}
	lock, err := datadir.AcquireLock(dir.Lock())
	if errors.Is(err, datadir.ErrOwned) {
		return "", api.Errorf(api.KindConflict, "a daemon uses data directory %s", dir).WithHint("stop it first: hortus daemon stop")
	}
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if err := dir.CheckStoreIsHere(); err != nil {
		return "", err
	}
	from, err := database.OpenSQLite(ctx, database.SQLite{Path: dir.Database(), Ahead: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	password, err := readPassword(set.Store.PasswordFile)
	if err != nil {
		return "", err
	}
	to, err := database.OpenPostgres(ctx, database.Postgres{URL: set.Store.URL, Password: password, KeyFile: dir.DatabaseKey()})
	if errors.Is(err, database.ErrOtherKey) {
		return "", api.Errorf(api.KindConflict, "the target already has rows of another installation: %w", err).
			WithHint("use an empty database: createdb NAME. To use that one without the rows of this data directory, start a daemon with a new --data-dir, and name a copy of its key in store.key-file")
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := copyKey(dir.DatabaseKey(), cmp.Or(set.Store.KeyFile, dir.DatabaseKey())); err != nil {
		return "", err
	}
	if err := database.Copy(ctx, from, to, func(c database.Copied) { opt.Report(c.Table, c.Rows, c.Verified) }); err != nil {
		return "", err
	}
	return to.Place(), dir.MoveStore(to.ID(), to.Place())
}

// copyKey writes the key of sealed values to another file, unless the key is there already.
func copyKey(from, to string) error {
	key, err := os.ReadFile(from)
	if err != nil || from == to {
		return err
	}
	have, err := os.ReadFile(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.WriteFile(to, key, 0o600)
	case err == nil && string(have) != string(key):
		return api.Errorf(api.KindConflict, "store.key-file %s has another key than %s, which the secrets are encrypted with", to, from).
			WithHint("set store.key-file to a file that does not exist, or omit it")
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "store.key-file: %w", err)
	}
	return nil
}
