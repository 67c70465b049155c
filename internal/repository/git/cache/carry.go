package cache

import (
	"context"
	"io"
	"os"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Pack writes the objects of commits that the branches and tags of the remote do not have, as a pack for [Repo.Unpack] in another cache of the
// same remote. It reports whether there are any; otherwise nothing was written.
func (r *Repo) Pack(ctx context.Context, w io.Writer, commits ...string) (bool, error) {
	for _, c := range commits {
		if err := r.requireCommit(ctx, c); err != nil {
			return false, err
		}
	}
	refs, err := r.run(ctx, git.Call{Args: []string{"for-each-ref", "--format=^%(objectname)", "refs/hortus/remote/", "refs/hortus/detached"}, Max: 64 << 20})
	if err != nil {
		return false, err
	}
	ask := strings.Join(commits, "\n") + "\n" + string(refs)
	n, err := r.run(ctx, git.Call{Args: []string{"rev-list", "--count", "--stdin"}, Stdin: strings.NewReader(ask)})
	if err != nil || strings.TrimSpace(string(n)) == "0" {
		return false, err
	}
	_, err = r.run(ctx, git.Call{Args: []string{"pack-objects", "--quiet", "--revs", "--stdout"}, Stdin: strings.NewReader(ask), Stdout: w, Max: 1 << 40})
	return err == nil, err
}

// Unpack adds the objects of a pack to the repository, which then has some commits. git checks each object, and that none is missing.
// KindDenied for objects that git refuses, KindNotFound if the repository still lacks a commit.
func (r *Repo) Unpack(ctx context.Context, pack *os.File, commits ...string) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := r.cache.cfg.Space.Check("the copy of a repository", 0); err != nil {
		return err
	}
	var res CommitResult
	if err := r.adopt(ctx, pack, lock, "", &res); err != nil {
		return api.Errorf(api.KindOf(err), "commits of another host: %w", err)
	}
	for _, c := range commits {
		if err := r.requireCommit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether the repository has a commit.
func (r *Repo) Has(ctx context.Context, commit string) (bool, error) {
	err := r.requireCommit(ctx, commit)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	return err == nil, err
}
