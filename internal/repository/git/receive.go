package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
)

// branch says where a branch of a place is, "" where there is none. aside is a
// directory that does not exist.
func (f *place) branch(ctx context.Context, aside, name string) (string, error) {
	if err := f.shadow(ctx, aside, true); err != nil {
		return "", err
	}
	// The pattern finds what is below the branch as well.
	out, err := f.git.run(ctx, call{gitDir: aside, args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/" + name}})
	for line := range strings.Lines(string(out)) {
		if hash, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == "refs/heads/"+name {
			return hash, err
		}
	}
	return "", err
}

// checkedOut says where a branch is checked out, whose files would not follow it.
func (f *place) checkedOut(name string) (string, error) {
	heads := map[string]string{}
	if f.root != "" {
		heads[f.root] = filepath.Join(f.dir, "HEAD")
	}
	if f.dir != f.common || f.root != "" {
		heads[filepath.Dir(f.common)] = filepath.Join(f.common, "HEAD")
	}
	linked, err := os.ReadDir(filepath.Join(f.common, "worktrees"))
	if err != nil && !os.IsNotExist(err) {
		return "", api.Errorf(api.KindInternal, "%w", err)
	}
	for _, w := range linked {
		heads["the work tree "+w.Name()] = filepath.Join(f.common, "worktrees", w.Name(), "HEAD")
	}
	for where, head := range heads {
		b, err := readSmall(head, 4<<10)
		if err != nil {
			if api.KindOf(err) == api.KindNotFound {
				continue
			}
			return "", err
		}
		if strings.TrimSpace(strings.TrimPrefix(string(b), "ref:")) == "refs/heads/"+name {
			return where, nil
		}
	}
	return "", nil
}

// receive takes a commit over from a repository of ours and lets a branch of the
// place be at it, if the branch is at was ("" for a new one). Nothing of the place
// runs: its hooks are off, and its objects come in through a shadow, checked by
// git's fsck. aside is a directory that does not exist.
func (f *place) receive(ctx context.Context, aside, from, commit, name, was string) error {
	if where, err := f.checkedOut(name); err != nil {
		return err
	} else if where != "" {
		return api.Errorf(api.KindConflict, "the branch %q is checked out in %s", name, where).WithHint("take another name for the branch")
	}
	if err := f.shadow(ctx, aside, false); err != nil {
		return err
	}
	_, err := f.git.run(ctx, call{gitDir: aside, args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", from, commit + ":refs/hortus/received"},
		env:    []string{allow("file"), "GIT_OBJECT_DIRECTORY=" + filepath.Join(f.common, "objects")},
		config: []string{"protocol.file.allow", "always"}})
	if err != nil {
		return err
	}
	if was == "" {
		was = strings.Repeat("0", len(commit))
	}
	// The one call in a repository that is not ours: a ref is written as its owner's
	// git would, in whatever format, and the only thing of it that update-ref would
	// run is a hook, which core.hooksPath turns off.
	if _, err := f.git.run(ctx, call{gitDir: f.common, args: []string{"update-ref", "--no-deref", "refs/heads/" + name, commit, was}, config: []string{"core.logAllRefUpdates", "true"}}); err != nil {
		return api.Errorf(api.KindConflict, "the branch %q of %s cannot be written: %w", name, f.common, err).
			WithHint("a branch whose name is the beginning of this one, or that moved in the meantime, is in the way")
	}
	return nil
}
