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
// round, or of the last result for round 0. repository names one of several, whose patch
// of the last result has paths relative to it; empty for all.
func (r *Runner) Diff(ctx context.Context, t api.Task, round int, repository string) (io.ReadCloser, error) {
	head, err := headOf(t, round)
	if err != nil {
		return nil, err
	}
	if repository != "" && round != 0 {
		return nil, api.Errorf(api.KindInvalid, "the patch of a round is of all repositories; it cannot be of %.80q alone", repository)
	}
	from, part, err := r.part(ctx, t, repository)
	if err != nil {
		return nil, err
	}
	if repository != "" {
		head = part.Head
	}
	patch, err := from.Diff(ctx, part.Commit, head, cache.DiffOptions{Max: maxDiff})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(patch)), nil
}

// part returns the result of one of several repositories, and where its commits are; that of all for an empty name.
func (r *Runner) part(ctx context.Context, t api.Task, name string) (*cache.Repo, api.RepoResult, error) {
	res := *t.Repo
	w := r.newProject(Job{Task: t})
	if err := w.recall(ctx, res); err != nil {
		return nil, res, err
	}
	if name == "" {
		return w.repo, res, nil
	}
	for _, m := range w.members {
		part, ok := res.Of(name)
		switch {
		case m.Name != name || !ok:
		case part.Head == "":
			return nil, part, api.Errorf(api.KindNotFound, "task %s changed nothing in %s", t.ID, name)
		default:
			return m.repo, part, nil
		}
	}
	return nil, res, api.Errorf(api.KindNotFound, "task %s has no repository %.80q", t.ID, name).
		WithHint("To see its repositories: hortus task show %s.", t.ID)
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
// from, of the only repository or of the one that is named. It is made whole before
// anything of it is read.
func (r *Runner) Bundle(ctx context.Context, t api.Task, repository string) (io.ReadCloser, error) {
	if _, err := headOf(t, 0); err != nil {
		return nil, err
	}
	if repository == "" && len(t.Create.Repo.Also) > 0 {
		return nil, api.Errorf(api.KindInvalid, "task %s has several repositories, each with a branch of its own", t.ID).
			WithHint("Name one of them; to see them: hortus task show %s.", t.ID)
	}
	from, part, err := r.part(ctx, t, repository)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "hortus-bundle-")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "create a bundle: %w", err)
	}
	// Nothing has to find it by its name.
	os.Remove(f.Name())
	if err := from.Bundle(ctx, f, part.Branch, part.Commit); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, api.Errorf(api.KindInternal, "read the bundle: %w", err)
	}
	return f, nil
}
