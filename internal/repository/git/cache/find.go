package cache

import (
	"errors"
	"io/fs"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Find gives the cache's copy of a remote as it is, without asking the remote.
// KindNotFound where there is none.
func (c *Cache) Find(address string) (*Repo, error) {
	m, err := git.ParseRemote(address, c.cfg.Insecure)
	if err != nil {
		return nil, err
	}
	r := c.repo(m)
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "%s is not in the cache of repositories", git.DisplayAddress(address)).
			WithHint("A task on it brings it back.")
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
	}
	return r, nil
}
