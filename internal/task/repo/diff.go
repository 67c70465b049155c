package repo

import (
	"bytes"
	"context"
	"io"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// maxDiff bounds a patch, in bytes.
const maxDiff = 512 << 20

// Diff returns the patch of a task's result against what it started from: of one
// round, or of the last result for round 0.
func (r *Runner) Diff(ctx context.Context, t api.Task, round int) (io.ReadCloser, error) {
	head, err := headOf(t, round)
	if err != nil {
		return nil, err
	}
	repo, err := r.cfg.Git.Find(t.Create.Repo.URL)
	if err != nil {
		return nil, err
	}
	patch, err := repo.Diff(ctx, t.Repo.Commit, head, cache.DiffOptions{Max: maxDiff})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(patch)), nil
}

// headOf finds the commit of a result.
func headOf(t api.Task, round int) (string, error) {
	if t.Repo == nil || t.Repo.Commit == "" {
		return "", api.Errorf(api.KindNotFound, "task %s has no result yet", t.ID)
	}
	head := t.Repo.Head
	if round != 0 {
		if round < 0 || round > len(t.Repo.Rounds) {
			return "", api.Errorf(api.KindNotFound, "task %s has %d rounds; round %d does not exist", t.ID, len(t.Repo.Rounds), round)
		}
		head = t.Repo.Rounds[round-1].Head
	}
	if head == "" {
		return "", api.Errorf(api.KindNotFound, "task %s changed nothing", t.ID)
	}
	return head, nil
}

// Bundle returns a task's branch as a git bundle, over the commit that it started
// from. It is made whole before anything of it is read.
func (r *Runner) Bundle(ctx context.Context, t api.Task) (io.ReadCloser, error) {
	if _, err := headOf(t, 0); err != nil {
		return nil, err
	}
	repo, err := r.cfg.Git.Find(t.Create.Repo.URL)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "hortus-bundle-")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "create a bundle: %w", err)
	}
	// Nothing has to find it by its name.
	os.Remove(f.Name())
	if err := repo.Bundle(ctx, f, t.Repo.Branch, t.Repo.Commit); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, api.Errorf(api.KindInternal, "read the bundle: %w", err)
	}
	return f, nil
}
