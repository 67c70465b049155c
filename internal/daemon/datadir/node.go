package datadir

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"hortus.dev/api"
)

// NodeID returns the ID of the data directory among those that share a database, and makes one if it has none. The caller holds the lock.
func (d Dir) NodeID() (api.NodeID, error) {
	path := d.Path("node")
	b, err := os.ReadFile(path)
	if err == nil {
		id := api.NodeID(strings.TrimSpace(string(b)))
		if !id.Valid() {
			return "", api.Errorf(api.KindInternal, "%s has no ID of a node", path).
				WithHint("restore the file from a backup: without it the sandboxes of this node count as those of another one")
		}
		return id, nil
	}
	id := api.NewNodeID()
	if errors.Is(err, fs.ErrNotExist) {
		partial := path + ".partial"
		if err = os.WriteFile(partial, []byte(id+"\n"), 0o600); err == nil {
			err = os.Rename(partial, path)
		}
	}
	if err != nil {
		return "", api.Errorf(api.KindInternal, "the ID of the node: %w", err)
	}
	return id, nil
}
