package checkout

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// Info is the work tree of the person who asks, or their bare repository.
type Info struct {
	Root       string // absolute, links resolved; the repository itself where it is bare
	Bare       bool   // there is no work tree
	Head       string // the commit that is checked out; empty before the first
	Branch     string // without refs/heads/; empty where no branch is checked out
	Dirty      int    // files that git tracks and that differ from the commit
	Untracked  int    // files, and directories of nothing else, that git neither tracks nor ignores
	Submodules int    // that HEAD's .gitmodules names
	Borrows    error  // why no task can start from it, where it takes objects from another repository
	Origin     string // the address of the remote "origin", without user and password; may be empty
}

// desk is a checkout that was opened, with a directory aside for what is made on
// the way.
type workTree struct {
	*shadow.Repository
	git      *git.Program
	temp     string
	settings []string // of the person's configuration: key, value, key, value...
}

// maxIndexFile is the maximum size of a part of an index, in bytes.
const maxIndexFile = 1 << 30

// spellings are settings of a checkout that only say how its files are written.
var fileSettings = []string{"core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.precomposeunicode", "core.trustctime", "core.checkstat"}

// cast makes the shadow in which the work tree is looked at, once.
func (d *workTree) createShadow(ctx context.Context) error {
	dir := filepath.Join(d.temp, "shadow")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.Shadow(ctx, dir, true); err != nil {
		return err
	}
	// These hold patterns and nothing that could run.
	for _, name := range []string{"info/exclude", "info/attributes"} {
		if b, err := shadow.ReadFile(filepath.Join(d.Common, name), 1<<20); err == nil {
			to := filepath.Join(dir, name)
			if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
				err = os.WriteFile(to, b, 0o600)
			}
			if err != nil {
				return api.Errorf(api.KindInternal, "%w", err)
			}
		}
	}
	return nil
}

// in runs git over the work tree, by way of a shadow.
func (d *workTree) run(ctx context.Context, c git.Call) ([]byte, error) {
	if err := d.createShadow(ctx); err != nil {
		return nil, err
	}
	c.GitDir, c.Dir = filepath.Join(d.temp, "shadow"), d.Root
	c.Config = append(c.Config, d.settings...)
	if d.Root != "" {
		c.Env = append(c.Env, "GIT_WORK_TREE="+d.Root)
		c.Config = append(c.Config, "core.bare", "false")
	}
	for _, key := range fileSettings {
		if v, ok := d.Config[key]; ok {
			c.Config = append(c.Config, key, v)
		}
	}
	out, err := d.git.Run(ctx, c)
	if err != nil {
		err = d.Explain(err, c.GitDir)
	}
	return out, err
}

// Toplevel finds the checkout that a path is in and says what it is at. Nothing that
// its configuration names is run; of submodules, only the commit that is checked out
// counts. KindNotFound where there is none, KindDenied where it belongs to another
// user.
func (p User) Toplevel(ctx context.Context, path string) (Info, error) {
	d, done, err := p.open(ctx, path)
	if err != nil {
		return Info{}, err
	}
	defer done()
	c := Info{Root: d.Path(), Bare: d.Root == "", Borrows: d.CheckComplete(), Origin: git.Sanitize(git.StripCredentials(d.Config["remote.origin.url"]), git.MaxURL)}
	if !git.IsHash(d.Head) {
		c.Branch = strings.TrimPrefix(d.Head, "refs/heads/")
	}
	if c.Head, err = d.commit(ctx, "HEAD"); err != nil && api.KindOf(err) != api.KindNotFound {
		return c, err
	}
	out, err := d.run(ctx, git.Call{Args: []string{"config", "--blob", "HEAD:.gitmodules", "--null", "--name-only", "--get-regexp", `^submodule\..*\.path$`}, Max: 16 << 20})
	if err == nil { // else there is none, or it is malformed, which harms nothing here
		c.Submodules = len(git.SplitNUL(out))
	}
	if c.Bare {
		return c, nil
	}
	entries, err := d.status(ctx, "--untracked-files=normal", "--ignore-submodules=dirty")
	for _, entry := range entries {
		if strings.HasPrefix(entry, "?? ") {
			c.Untracked++
		} else {
			c.Dirty++
		}
	}
	return c, err
}

// Commit gives the commit that a name stands for in the checkout at dir: a branch, a
// tag, HEAD, a full or short hash. KindNotFound where there is none.
func (p User) Commit(ctx context.Context, dir, name string) (string, error) {
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return "", err
	}
	defer done()
	return d.commit(ctx, name)
}

func (d *workTree) commit(ctx context.Context, name string) (string, error) {
	out, err := d.run(ctx, git.Call{Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"}, Max: 64 << 10})
	if git.ExitCode(err, 1) || git.ExitCode(err, 128) || err == nil && !git.IsHash(strings.TrimSpace(string(out))) {
		return "", api.Errorf(api.KindNotFound, "%s has no branch, tag or commit %.100q", d.Path(), name)
	}
	return strings.TrimSpace(string(out)), err
}

// Changed gives those of some paths whose content in the work tree or the index is
// not that of HEAD, and untracked ones among them.
func (p User) Changed(ctx context.Context, dir string, paths []string) ([]string, error) {
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if d.Root == "" {
		return nil, noWorkTree(d)
	}
	var changed []string
	for some := range slices.Chunk(paths, maxPathsPerCall) {
		entries, err := d.status(ctx, append([]string{"--untracked-files=all", "--ignore-submodules=dirty", "--"}, some...)...)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			changed = append(changed, entry[3:])
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// atOnce bounds the paths of one command line.
const maxPathsPerCall = 200

// status gives the entries of git's own list: two letters, a blank, a path.
func (d *workTree) status(ctx context.Context, args ...string) ([]string, error) {
	if err := d.copyIndex(ctx); err != nil {
		return nil, err
	}
	out, err := d.run(ctx, git.Call{Args: append([]string{"status", "--porcelain", "-z", "--no-renames", "--no-ahead-behind"}, args...), Max: 1 << 30})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(git.SplitNUL(out), func(entry string) bool { return len(entry) < 4 }), nil
}

func noWorkTree(d *workTree) error {
	return api.Errorf(api.KindInvalid, "%s has no work tree to apply to", d.Dir).WithHint("take the work as a branch")
}

// index copies the checkout's index, with its time, which tells git what may have
// changed since.
func (d *workTree) copyIndex(ctx context.Context) error {
	if err := d.createShadow(ctx); err != nil {
		return err
	}
	shared, _ := filepath.Glob(filepath.Join(d.Dir, "sharedindex.*"))
	if len(shared) > 16 {
		return api.Errorf(api.KindExhausted, "%s has too many parts of an index", d.Dir)
	}
	for _, name := range append(shared, filepath.Join(d.Dir, "index")) {
		b, err := shadow.ReadFile(name, maxIndexFile)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(d.temp, "shadow", filepath.Base(name))
		info, err := os.Stat(name)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err == nil {
			err = os.Chtimes(to, info.ModTime(), info.ModTime())
		}
		if err != nil {
			return api.Errorf(api.KindInternal, "%w", err)
		}
	}
	return nil
}
