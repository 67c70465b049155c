package cache

import (
	"errors"
	"io/fs"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Find returns the cached copy of a remote without fetching. KindNotFound if there is
// none.
func (c *Cache) Find(address string) (*Repo, error) {
	m, err := git.ParseRemote(address, c.cfg.Insecure)
	if err != nil {
		return nil, err
	}
	r := c.repo(m)
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "%s is not in the repository cache", git.DisplayAddress(address)).
			WithHint("Create a task on it to fetch it again.")
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	return r, nil
}

// Remote parses an address by the rules of the cache.
func (c *Cache) Remote(address string) (git.Remote, error) {
	return git.ParseRemote(address, c.cfg.Insecure)
}

// NameOf returns the name that [Cache.List] has for the copy of a remote, if there is one.
func (c *Cache) NameOf(address string) (string, error) {
	m, err := c.Remote(address)
	if err != nil {
		return "", err
	}
	return c.repo(m).Name(), nil
}
