package cache

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// maxPatch is the maximum size of a patch, in bytes.
const maxPatch = 64 << 20

// Patch creates a commit with a patch applied to another commit, on no branch and with
// Hortus as author: for tests, not for delivery. KindInvalid if the patch does not apply
// completely or changes nothing.
func (r *Repo) Patch(ctx context.Context, commit string, patch io.Reader) (string, error) {
	if err := git.CheckHash("patch", commit); err != nil {
		return "", err
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	defer os.RemoveAll(r.workDir())
	d := &draft{Repo: r, dir: filepath.Join(r.workDir(), "draft")}
	if err := os.MkdirAll(filepath.Join(d.dir, "objects"), 0o700); err != nil {
		return "", api.Errorf(api.KindInternal, "patch: %w", err)
	}
	if _, err := d.runInWork(ctx, git.Call{Args: []string{"read-tree", "--end-of-options", commit}}); err != nil {
		return "", err
	}
	// Only the index is written, so links and paths of the patch are harmless.
	if _, err := d.runInWork(ctx, git.Call{Args: []string{"apply", "--cached", "--whitespace=nowarn", "-"}, Stdin: io.LimitReader(patch, maxPatch)}); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", api.Errorf(api.KindInvalid, "the patch does not apply to %.10s: %w", commit, err)
	}
	if d.res.Tree, err = d.runInWork(ctx, git.Call{Args: []string{"write-tree"}}); err != nil {
		return "", err
	}
	was, err := d.runInWork(ctx, git.Call{Args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
	if err != nil {
		return "", err
	}
	if was == d.res.Tree {
		return "", api.Errorf(api.KindInvalid, "the patch changes nothing")
	}
	own := Identity{Name: "Hortus", Email: "hortus@hortus.dev"}
	err = d.commit(ctx, CommitRequest{Parent: commit, Author: own, Committer: own, Message: "Try a patch", When: time.Unix(0, 0)})
	return d.res.Hash, err
}
