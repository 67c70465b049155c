package cache

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// SetBranch sets a branch that exists only in the cache to a commit, creating or moving
// it. An empty commit removes the branch, if it is there. KindInvalid for an invalid name, KindNotFound for an unknown commit.
func (r *Repo) SetBranch(ctx context.Context, name, commit string) error {
	if err := r.git.CheckBranch(ctx, name); err != nil {
		return err
	}
	args := []string{"update-ref", "--no-deref", "-d", ownBranches + name}
	if commit != "" {
		if err := r.requireCommit(ctx, commit); err != nil {
			return err
		}
		args = []string{"update-ref", "--no-deref", ownBranches + name, commit}
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	_, err = r.run(ctx, git.Call{Args: args, Lock: lock})
	return err
}

// requireCommit returns KindNotFound if the repository does not have a commit.
func (r *Repo) requireCommit(ctx context.Context, commit string) error {
	if err := git.CheckHash("commit", commit); err != nil {
		return err
	}
	found, err := r.peel(ctx, commit)
	if err == nil && found != commit {
		err = api.Errorf(api.KindNotFound, "the repository has no commit %s", commit)
	}
	return err
}

// Bundle writes a bundle of a branch set by SetBranch to w: the commits from base to it,
// under the name refs/heads/<branch>. A repository that has base can fetch from it. An
// empty base bundles the whole history. KindConflict if the branch has no commit that base
// does not have. After an error, w may have received a part.
func (r *Repo) Bundle(ctx context.Context, w io.Writer, branch, base string) error {
	if err := r.git.CheckBranch(ctx, branch); err != nil {
		return err
	}
	hash, err := r.peel(ctx, ownBranches+branch)
	if err != nil {
		return err
	}
	if hash == "" {
		return api.Errorf(api.KindNotFound, "the cache has no branch %q", branch)
	}
	args := []string{"bundle", "create", "--quiet", "-", "refs/heads/" + branch}
	if base != "" {
		if err := r.requireCommit(ctx, base); err != nil {
			return err
		}
		count, err := r.line(ctx, "rev-list", "--count", "--end-of-options", hash, "^"+base)
		if err != nil {
			return err
		}
		if count == "0" {
			return api.Errorf(api.KindConflict, "the branch %q has no commit that %s does not have", branch, base)
		}
		args = append(args, "^"+base)
	}
	// A bundle has the ref names of its repository, so create it in a shadow where the
	// branch is refs/heads/<branch>.
	dir, err := os.MkdirTemp(r.cache.cfg.Dir, "tmp-")
	if err != nil {
		return api.Errorf(api.KindInternal, "bundle: %w", err)
	}
	defer os.RemoveAll(dir)
	mine := shadow.NewOwn(r.git, r.dir, "refs/heads/"+branch)
	if len(hash) == 64 {
		mine.Config["extensions.objectformat"] = "sha256"
	}
	lean := filepath.Join(dir, "lean")
	if err := mine.Shadow(ctx, lean, true); err != nil {
		return err
	}
	if _, err := r.git.Run(ctx, git.Call{GitDir: lean, Args: []string{"update-ref", "refs/heads/" + branch, hash}}); err != nil {
		return err
	}
	_, err = r.git.Run(ctx, git.Call{GitDir: lean, Args: args, Stdout: w, Max: 1 << 40})
	return err
}
