package datadir

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"hortus.dev/api"
)

// The rows about a data directory are in its own file, or in a database on a server, which a file in the directory names
// then: the identity of the database, and a line for people. With the rows of another database, a daemon would take the
// workspaces and snapshots in the directory for orphans and remove them.

func (d Dir) boundStore() string { return d.Path("store") }

// readStore returns the identity and the place of the database on a server; both are empty if the rows are here.
func (d Dir) readStore() (id, place string, err error) {
	b, err := os.ReadFile(d.boundStore())
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", api.Errorf(api.KindInternal, "read which database a data directory belongs to: %w", err)
	}
	id, place, _ = strings.Cut(strings.TrimSpace(string(b)), "\n")
	return id, place, nil
}

// CheckStoreIsHere returns an error of KindConflict if the rows are in a database on a server.
func (d Dir) CheckStoreIsHere() error {
	id, place, err := d.readStore()
	if err == nil && id != "" {
		err = api.Errorf(api.KindConflict, "the rows of data directory %s are in %s", d, place).
			WithHint("set store.url, or HORTUS_STORE_URL, or use another --data-dir")
	}
	return err
}

// BindStore records that the rows are in a database on a server. KindConflict if they are in another one, or in the file of
// the directory.
func (d Dir) BindStore(id, place string) error {
	have, where, err := d.readStore()
	switch {
	case err != nil || have == id:
		return err
	case have != "":
		return api.Errorf(api.KindConflict, "the rows of data directory %s are in %s, which is another database than the one in store.url", d, where).
			WithHint("correct store.url, or use another --data-dir")
	}
	if _, err := os.Stat(d.Database()); err == nil {
		return api.Errorf(api.KindConflict, "the rows of data directory %s are in its file hortus.db", d).
			WithHint("copy them to the database in store.url: hortus store migrate; or remove store.url, or use another --data-dir")
	}
	return d.MoveStore(id, place)
}

// MoveStore records that the rows are in a database on a server from now on.
func (d Dir) MoveStore(id, place string) error {
	partial := d.boundStore() + ".partial"
	err := os.WriteFile(partial, []byte(id+"\n"+place+"\n"), 0o600)
	if err == nil {
		err = os.Rename(partial, d.boundStore())
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "record which database a data directory belongs to: %w", err)
	}
	return nil
}
