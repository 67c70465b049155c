package daemon

import (
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
)

// repositories is the folder of the cache in the data directory.
const repositories = "repositories"

// openRepositories makes what works on repositories; nil, with the reason in the log,
// where there is no git.
func (s *System) openRepositories(layers *layer.Store) (task.Repositories, error) {
	getenv := s.cfg.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	d, err := newDeliverer(getenv, s.cfg.Forges, s.cfg.Policy, s.models.base)
	if err != nil {
		return nil, err
	}
	cache, err := cache.Open(cache.Config{Dir: s.dir.path(repositories), Logger: s.log})
	if err != nil {
		s.log.Info("no tasks on repositories", "reason", err)
		return nil, nil
	}
	s.repositories = cache
	return repo.New(repo.Config{
		Git: cache, Computers: places{s.sandboxes, layers, s.workspaces}, Deliverer: d, Logger: s.log,
	}), nil
}
