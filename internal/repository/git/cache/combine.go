package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Member is a repository of a combined one.
type Member struct {
	// Dir is the directory that has its files: one name, as [api.ValidRepositoryName] allows.
	Dir  string
	Repo *Repo
	// Commit is the full hash of its commit.
	Commit string
}

// FindCombined returns the combined repository of members without changing it. Their commits
// do not matter. KindNotFound if there is none.
func (c *Cache) FindCombined(members []Member) (*Repo, error) {
	r, err := c.combined(members)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "the combined repository is not in the repository cache").
			WithHint("Create a task on the repositories to combine them again.")
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	return r, nil
}

// combined returns the combined repository of members, which need not exist.
func (c *Cache) combined(members []Member) (*Repo, error) {
	if len(members) < 2 {
		return nil, api.Errorf(api.KindInvalid, "%d repositories cannot be combined; it takes two", len(members))
	}
	sum := sha256.New()
	fmt.Fprintln(sum, "combined 1")
	seen := map[string]bool{}
	for _, m := range members {
		if !api.ValidRepositoryName(m.Dir) || strings.EqualFold(m.Dir, ".git") || seen[m.Dir] {
			return nil, api.Errorf(api.KindInvalid, "%.80q cannot be the directory of one of several repositories", m.Dir)
		}
		seen[m.Dir] = true
		fmt.Fprintf(sum, "%s %s\n", m.Dir, m.Repo.Name())
	}
	base := filepath.Join(c.cfg.Dir, hex.EncodeToString(sum.Sum(nil)))
	return &Repo{cache: c, git: c.git, dir: base + ".git", base: base}, nil
}

// Combine returns a repository with one commit, which has the files of each member in a
// directory of its own. The same members and commits give the same commit. It has no copy of
// their objects: it reads them where they are. KindUnsupported for members with different
// object formats.
//
// A result in it is divided with [Repo.CommitTree].
func (c *Cache) Combine(ctx context.Context, members []Member) (*Repo, Commit, error) {
	r, err := c.combined(members)
	if err != nil {
		return nil, Commit{}, err
	}
	format := len(members[0].Commit)
	var tree, alternates, subject strings.Builder
	for _, m := range members {
		if err := m.Repo.requireCommit(ctx, m.Commit); err != nil {
			return nil, Commit{}, err
		}
		if len(m.Commit) != format {
			return nil, Commit{}, api.Errorf(api.KindUnsupported, "%s and %s have different object formats (SHA-1 and SHA-256); a task cannot have both", members[0].Dir, m.Dir)
		}
		at, err := m.Repo.commit(ctx, m.Commit, "")
		if err != nil {
			return nil, Commit{}, err
		}
		fmt.Fprintf(&tree, "040000 tree %s\t%s\n", at.Tree, m.Dir)
		fmt.Fprintf(&alternates, "../../%s/objects\n", filepath.Base(m.Repo.dir))
		fmt.Fprintf(&subject, "%s %s\n", m.Dir, m.Commit)
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return nil, Commit{}, err
	}
	defer lock.Close()
	if err := r.create(ctx, format, alternates.String()); err != nil {
		return nil, Commit{}, c.full(err)
	}
	out, err := r.run(ctx, git.Call{Args: []string{"mktree"}, Stdin: strings.NewReader(tree.String()), Lock: lock})
	if err != nil {
		return nil, Commit{}, err
	}
	own := "GIT_AUTHOR_DATE=@0 +0000"
	out, err = r.run(ctx, git.Call{Args: []string{"commit-tree", strings.TrimSpace(string(out)), "-F", "-"}, Lock: lock,
		Stdin: strings.NewReader("Combine repositories\n\n" + subject.String()), Env: []string{own, strings.Replace(own, "AUTHOR", "COMMITTER", 1)}})
	if err != nil {
		return nil, Commit{}, err
	}
	at, err := r.commit(ctx, strings.TrimSpace(string(out)), "")
	return r, at, err
}

// create creates the repository if it is not there, and says where the objects of its members
// are.
func (r *Repo) create(ctx context.Context, format int, alternates string) error {
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		aside := r.base + ".new"
		defer os.RemoveAll(aside)
		if err := git.InitBare(ctx, r.git, aside, map[int]string{40: "sha1", 64: "sha256"}[format]); err != nil {
			return err
		}
		if err := os.Rename(aside, r.dir); err != nil {
			return api.Errorf(api.KindInternal, "repository cache: %w", err)
		}
	} else if err != nil {
		return api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	name := filepath.Join(r.dir, "objects", "info", "alternates")
	have, err := os.ReadFile(name)
	if err == nil && string(have) == alternates {
		return nil
	}
	if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
		if err = os.WriteFile(name+".new", []byte(alternates), 0o600); err == nil {
			err = os.Rename(name+".new", name)
		}
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	return nil
}

// CommitTree creates a commit whose tree is a directory of a commit of a combined repository.
// Changes and Limits of the request are ignored. Empty is set if the parent has the same tree.
// As with [Repo.Commit], git checks the objects before they are added.
func (r *Repo) CommitTree(ctx context.Context, from *Repo, commit, dir string, q CommitRequest) (CommitResult, error) {
	q.Changes = nil
	if err := q.check(); err != nil {
		return CommitResult{}, err
	}
	if err := git.CheckHash("commit", commit); err != nil {
		return CommitResult{}, err
	}
	tree, err := from.treeAt(ctx, commit, dir)
	if err != nil {
		return CommitResult{}, err
	}
	parent, err := r.commit(ctx, q.Parent, "")
	if err != nil {
		return CommitResult{}, err
	}
	res := CommitResult{Tree: tree, Empty: tree == parent.Tree}
	if res.Empty {
		return res, nil
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return CommitResult{}, err
	}
	defer lock.Close()
	defer os.RemoveAll(r.workDir())
	if from.dir == r.dir { // only the commit is new
		d, err := r.draft(ctx, lock, q.Parent)
		if err != nil {
			return CommitResult{}, err
		}
		defer d.end()
		d.res = res
		err = d.commit(ctx, q)
		return d.res, err
	}
	d, err := r.quarantine(lock, from)
	if err != nil {
		return CommitResult{}, err
	}
	err = d.commit(ctx, q, &res)
	return res, err
}

// treeAt returns the tree of a directory of a commit, of the empty tree if it has none.
func (r *Repo) treeAt(ctx context.Context, commit, dir string) (string, error) {
	if dir == "" {
		c, err := r.commit(ctx, commit, "")
		return c.Tree, err
	}
	if !api.ValidRepositoryName(dir) {
		return "", api.Errorf(api.KindInvalid, "%.80q is not the directory of a repository", dir)
	}
	out, err := r.run(ctx, git.Call{Args: []string{"ls-tree", "-d", "--full-tree", "--end-of-options", commit, dir}, Max: 64 << 10})
	if err != nil {
		return "", err
	}
	if len(out) == 0 {
		// Every file of the repository was deleted.
		out, err = r.run(ctx, git.Call{Args: []string{"mktree"}, Stdin: strings.NewReader("")})
		return strings.TrimSpace(string(out)), err
	}
	fields := strings.Fields(string(out))
	if len(fields) != 4 || fields[1] != "tree" || !git.IsHash(fields[2]) || fields[3] != dir {
		return "", api.Errorf(api.KindInternal, "git ls-tree printed unexpected output: %q", git.Sanitize(string(out), 200))
	}
	return fields[2], nil
}
