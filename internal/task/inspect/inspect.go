package inspect

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
)

// Config is what an Inspector works with.
type Config struct {
	// Cache has the copies of the repositories; nil on a machine without git.
	Cache *cache.Cache
	// OffLimits are the globs of the files that no sandbox has.
	OffLimits []string
}

// Inspector looks into commits. Its methods may be called from several goroutines.
type Inspector struct {
	cfg   Config
	files *filerule.Policy
}

// New creates an Inspector. KindInvalid for globs that make no sense.
func New(cfg Config) (*Inspector, error) {
	files, err := filerule.Compile(api.FilePolicy{OffLimits: cfg.OffLimits})
	return &Inspector{cfg, files}, err
}

// Inspect says what was found in a commit of the repository with an address. KindNotFound if it is not in the cache.
func (i *Inspector) Inspect(ctx context.Context, url, commit string) (api.RepositoryDetected, error) {
	out := api.RepositoryDetected{Commit: commit, Gates: []api.GateCandidate{}, Setup: []string{}, SetupFrom: []string{}}
	if i.cfg.Cache == nil {
		return out, api.Errorf(api.KindUnsupported, "git is not installed, and repositories need it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	repo, err := i.cfg.Cache.Find(url)
	if err != nil {
		return out, err
	}
	all, err := repo.Files(ctx, commit)
	if err != nil {
		return out, err
	}
	var paths []string
	for _, f := range all {
		if (f.Mode == cache.Regular || f.Mode == cache.Executable) && i.files.OffLimits(f.Path) == "" {
			paths = append(paths, f.Path)
		}
	}
	read := func(most int64) func(string) []byte {
		return func(path string) []byte {
			if i.files.OffLimits(path) != "" {
				return nil
			}
			b, err := repo.ReadFile(ctx, commit, path, most)
			if err != nil {
				return nil // as if it were not there, as in a task
			}
			return b
		}
	}
	tests := gate.Tree{Paths: paths, Read: read(gate.MaxFile)}
	chosen, none := gate.Detect(tests)
	if none != nil {
		out.NoGate = api.AsError(none).Message
	}
	for _, c := range gate.Candidates(tests) {
		out.Gates = append(out.Gates, api.GateCandidate{Command: c.Text, From: c.From, Why: c.Why, Chosen: none == nil && c.Text == chosen.Text})
	}
	plan, err := dependency.Of(dependency.Tree{Paths: paths, Read: read(dependency.MaxFile), GoTests: gate.GoTests(tests, chosen.Text)})
	if err != nil {
		return out, err
	}
	for _, s := range plan.Steps {
		out.Setup = append(out.Setup, s.Name)
	}
	out.SetupFrom = append(out.SetupFrom, plan.From...)
	return out, ctx.Err()
}
