package checkout

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Import fetches a commit with its history from a bundle into the repository of the
// checkout at dir, as a new local branch. The work tree and the index do not change. If the
// branch exists, Import does nothing if it is at the commit, else KindExists. KindInvalid
// for an invalid bundle, one without the commit, and an invalid name; KindConflict if the
// repository does not have the commits that the bundle needs, or the branch is checked out.
func (p User) Import(ctx context.Context, dir, bundle, branch, commit string) error {
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	if err := d.git.CheckBranch(ctx, branch); err != nil {
		return err
	}
	if err := git.CheckHash("import", commit); err != nil {
		return err
	}
	if info, err := os.Lstat(bundle); err != nil || !info.Mode().IsRegular() || !filepath.IsAbs(bundle) {
		return api.Errorf(api.KindInvalid, "import: %q is not the absolute path of a file", bundle)
	}
	at, err := d.Repository.Branch(ctx, filepath.Join(d.temp, "look"), branch)
	if err != nil {
		return err
	}
	switch at {
	case commit:
		return nil
	case "":
	default:
		return api.Errorf(api.KindExists, "the branch %q exists already, at %.12s", branch, at).
			WithHint("rename it (git branch -m %s ...) or delete it, and try again", branch)
	}
	name, err := findInBundle(ctx, d.git, bundle, commit)
	if err != nil {
		return err
	}
	here := filepath.Join(d.temp, "received")
	if err := d.Shadow(ctx, here, true); err != nil {
		return err
	}
	_, err = d.git.Run(ctx, git.Call{GitDir: here, Args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", bundle, name + ":refs/hortus/import"},
		Env: []string{git.AllowProtocol("file")}, Config: []string{"protocol.file.allow", "always"}})
	if err != nil {
		return api.Errorf(api.KindConflict, "import: the bundle does not apply to this repository: %w", err).
			WithHint("this checkout may not have the commit that the work started from: git fetch, and try again")
	}
	// The bundle may contain something else than its header says.
	came, err := d.git.Line(ctx, git.Call{GitDir: here, Args: []string{"rev-parse", "--verify", "--end-of-options", "refs/hortus/import^{commit}"}})
	if err != nil {
		return err
	}
	if came != commit {
		return api.Errorf(api.KindInvalid, "import: the bundle contains %.12s instead of %.12s", came, commit)
	}
	return d.Receive(ctx, filepath.Join(d.temp, "into"), here, commit, branch, "")
}

// findInBundle returns the name of a commit in a bundle.
func findInBundle(ctx context.Context, g *git.Program, bundle, commit string) (string, error) {
	out, err := g.Run(ctx, git.Call{Args: []string{"bundle", "list-heads", bundle}})
	if git.ExitCode(err, 1) || git.ExitCode(err, 128) {
		return "", api.Errorf(api.KindInvalid, "git cannot read the bundle: %w", err)
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		hash, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && hash == commit && strings.HasPrefix(name, "refs/heads/") && git.CheckRevision(name) == nil {
			return name, nil
		}
	}
	return "", api.Errorf(api.KindInvalid, "the bundle does not contain a branch at the commit %.12s", commit)
}
