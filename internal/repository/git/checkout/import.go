package checkout

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Import takes a commit out of a bundle, with its history, into the repository of the
// checkout at dir, as a new local branch. The work tree and the index are not
// touched. Where the branch is there already: nothing to do if it is at that commit,
// else KindExists. KindInvalid for what is no bundle, or one without that commit,
// and for what is no name of a branch; KindConflict where the repository lacks what
// the bundle builds on, or where the branch is checked out.
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
		return api.Errorf(api.KindExists, "the branch %q is there already, at %.12s", branch, at).
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
		return api.Errorf(api.KindConflict, "import: the bundle does not fit this repository: %w", err).
			WithHint("this checkout may lack the commit that the work started from: git fetch, and try again")
	}
	// What the bundle says it holds and what came are two things.
	came, err := d.git.Line(ctx, git.Call{GitDir: here, Args: []string{"rev-parse", "--verify", "--end-of-options", "refs/hortus/import^{commit}"}})
	if err != nil {
		return err
	}
	if came != commit {
		return api.Errorf(api.KindInvalid, "import: the bundle holds %.12s in place of %.12s", came, commit)
	}
	return d.Receive(ctx, filepath.Join(d.temp, "into"), here, commit, branch, "")
}

// inBundle finds the name that a commit has in a bundle.
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
	return "", api.Errorf(api.KindInvalid, "the bundle does not hold a branch at the commit %.12s", commit)
}
