package checkout

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"hortus.dev/api"
)

// Tree is a checkout that was found.
type Tree struct {
	// Root is its top level, an absolute path.
	Root string
	// Bare says that there is no working tree: Root is the repository itself.
	Bare bool
	// Head is the commit that is checked out; empty in a repository without one.
	Head string
	// Branch is the branch that is checked out; empty where none is.
	Branch string
	// Dirty counts the files that differ from Head or are not in it; those that
	// its own rules ignore do not count. It is below 0 where counting them would run
	// programs that the checkout's own configuration names.
	Dirty int
	// Origin is the address of the remote "origin", as [Git.Remote] gives it;
	// empty where there is none.
	Origin string
}

// Find gives the checkout that a directory is in: KindNotFound where it is in
// none, KindUnsupported without git.
func (g *Git) Find(ctx context.Context, dir string) (Tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Tree{}, api.Errorf(api.KindInvalid, "%s: %w", dir, err)
	}
	root, err := g.run(ctx, abs, nil, "rev-parse", "--show-toplevel")
	var no *failed
	switch {
	case errors.As(err, &no) && strings.Contains(no.said, "dubious ownership"):
		return Tree{}, api.Errorf(api.KindDenied, "git does not trust %s: it belongs to somebody else", abs).
			WithHint("git config --global --add safe.directory %s", abs)
	case errors.As(err, &no) && strings.Contains(no.said, "work tree"):
		if root, err = g.optional(ctx, abs, "rev-parse", "--absolute-git-dir"); err != nil || root == "" {
			return Tree{}, err
		}
	case errors.As(err, &no):
		return Tree{}, api.Errorf(api.KindNotFound, "%s is in no git checkout", abs)
	case err != nil:
		return Tree{}, err
	}
	t := Tree{Root: strings.TrimSuffix(root, "\n"), Bare: no != nil}
	if t.Head, err = g.optional(ctx, t.Root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return t, err
	}
	if t.Branch, err = g.optional(ctx, t.Root, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
		return t, err
	}
	if !t.Bare {
		if t.Dirty, err = g.dirty(ctx, t.Root); err != nil {
			return t, err
		}
	}
	t.Origin, err = g.Remote(ctx, t.Root, "origin")
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	return t, err
}

// optional runs a command whose failure means that there is no answer.
func (g *Git) optional(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := g.run(ctx, dir, nil, args...)
	var no *failed
	if errors.As(err, &no) {
		return "", nil
	}
	return strings.TrimSuffix(out, "\n"), err
}

// dirty counts the entries of git's own list.
func (g *Git) dirty(ctx context.Context, root string) (int, error) {
	// Filters are named by the configuration and chosen by files of the repository.
	// Those of the person's own configuration are the person's.
	for _, scope := range []string{"--local", "--worktree"} {
		filters, err := g.optional(ctx, root, "config", "--includes", scope, "--name-only", "--get-regexp", `^filter\.`)
		if err != nil {
			return 0, err
		}
		if filters != "" {
			return -1, nil
		}
	}
	out, err := g.run(ctx, root, nil, "status", "--porcelain=v1", "-z", "--no-renames")
	var no *failed
	if errors.As(err, &no) {
		return 0, api.Errorf(api.KindUnavailable, "git status in %s: %s", root, no.said)
	}
	return strings.Count(out, "\x00"), err
}

// Setting gives a value of git's configuration as it holds in a directory; empty
// where nothing is set.
func (g *Git) Setting(ctx context.Context, dir, key string) (string, error) {
	return g.optional(ctx, dir, "config", "--get", key)
}

// Commit gives the commit that a name stands for in a checkout: KindNotFound where
// there is none.
func (g *Git) Commit(ctx context.Context, root, name string) (string, error) {
	id, err := g.optional(ctx, root, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err == nil && id == "" {
		err = api.Errorf(api.KindNotFound, "%s has no branch, tag or commit %.100q", root, name)
	}
	return id, err
}

// Remote gives the address that a remote's pushes go to: KindNotFound where there
// is no such remote. A path that is relative to the checkout comes out absolute.
func (g *Git) Remote(ctx context.Context, root, name string) (string, error) {
	out, err := g.optional(ctx, root, "remote", "get-url", "--push", "--", name)
	if err != nil {
		return "", err
	}
	url, _, _ := strings.Cut(out, "\n")
	switch {
	case url == "":
		return "", api.Errorf(api.KindNotFound, "%s has no remote %.100q", root, name)
	case strings.Contains(url, "://") || scpLike(url):
		return url, nil
	case !filepath.IsAbs(url):
		url = filepath.Join(root, url)
	}
	return url, nil
}

// scpLike says whether an address is host:path, by git's own rule: a colon before
// the first slash.
func scpLike(s string) bool {
	i := strings.IndexByte(s, ':')
	slash := strings.IndexByte(s, '/')
	return i > 0 && (slash < 0 || i < slash)
}
