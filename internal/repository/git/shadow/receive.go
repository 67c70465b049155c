package shadow

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Branch returns the commit of a branch, "" if it does not exist. aside is a directory to
// create for a shadow.
func (f *Repository) Branch(ctx context.Context, aside, name string) (string, error) {
	if err := f.Shadow(ctx, aside, true); err != nil {
		return "", err
	}
	// The pattern finds what is below the branch as well.
	out, err := f.git.Run(ctx, git.Call{GitDir: aside, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/" + name}})
	for line := range strings.Lines(string(out)) {
		if hash, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == "refs/heads/"+name {
			return hash, err
		}
	}
	return "", err
}

// checkedOut returns where a branch is checked out, or "". The files there would not
// follow the branch.
func (f *Repository) checkedOut(name string) (string, error) {
	heads := map[string]string{}
	if f.Root != "" {
		heads[f.Root] = filepath.Join(f.Dir, "HEAD")
	}
	if f.Dir != f.Common || f.Root != "" {
		heads[filepath.Dir(f.Common)] = filepath.Join(f.Common, "HEAD")
	}
	linked, err := os.ReadDir(filepath.Join(f.Common, "worktrees"))
	if err != nil && !os.IsNotExist(err) {
		return "", api.Errorf(api.KindInternal, "%w", err)
	}
	for _, w := range linked {
		heads["the work tree "+w.Name()] = filepath.Join(f.Common, "worktrees", w.Name(), "HEAD")
	}
	for where, head := range heads {
		b, err := ReadFile(head, 4<<10)
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

// Receive fetches a commit from from, a repository of our own, and sets a branch to it if
// the branch is at was ("" for a new one). Hooks do not run. The objects arrive through a
// shadow and are checked by git's fsck. aside is a directory to create for the shadow.
func (f *Repository) Receive(ctx context.Context, aside, from, commit, name, was string) error {
	if where, err := f.checkedOut(name); err != nil {
		return err
	} else if where != "" {
		return api.Errorf(api.KindConflict, "the branch %q is checked out in %s", name, where).WithHint("use another name for the branch")
	}
	if err := f.Shadow(ctx, aside, false); err != nil {
		return err
	}
	_, err := f.git.Run(ctx, git.Call{GitDir: aside, Args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", from, commit + ":refs/hortus/received"},
		Env:    []string{git.AllowProtocol("file"), "GIT_OBJECT_DIRECTORY=" + filepath.Join(f.Common, "objects")},
		Config: []string{"protocol.file.allow", "always"}})
	if err != nil {
		return err
	}
	if was == "" {
		was = strings.Repeat("0", len(commit))
	}
	// The only call in a repository of somebody else. Git writes the ref in the format of
	// the repository. Of its configuration update-ref runs only a hook, which
	// core.hooksPath disables.
	if _, err := f.git.Run(ctx, git.Call{GitDir: f.Common, Args: []string{"update-ref", "--no-deref", "refs/heads/" + name, commit, was}, Config: []string{"core.logAllRefUpdates", "true"}}); err != nil {
		return api.Errorf(api.KindConflict, "the branch %q of %s cannot be written: %w", name, f.Common, err).
			WithHint("the branch moved, or the name of another branch is a prefix of this one")
	}
	return nil
}
