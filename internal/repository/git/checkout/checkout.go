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

// Info describes a checkout or a bare repository of the user.
type Info struct {
	Root       string // absolute, links resolved; the repository itself if it is bare
	Bare       bool   // there is no work tree
	Head       string // the commit that is checked out; empty before the first commit
	Branch     string // without refs/heads/; empty if no branch is checked out
	Dirty      int    // number of tracked files that differ from the commit
	Untracked  int    // number of untracked files and directories that are not ignored
	Submodules int    // number of submodules in HEAD's .gitmodules
	Borrows    error  // why no task can start from it: it borrows objects from another repository; else nil
	Origin     string // address of the remote "origin" without credentials; may be empty
}

// workTree is an open checkout with a temporary directory.
type workTree struct {
	*shadow.Repository
	git      *git.Program
	temp     string
	settings []string // of the user's configuration: key, value, key, value...
}

// maxIndexFile is the maximum size of a part of an index, in bytes.
const maxIndexFile = 1 << 30

// fileSettings are the settings of a checkout for how its files are written.
var fileSettings = []string{"core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.precomposeunicode", "core.trustctime", "core.checkstat"}

// createShadow creates the shadow of the checkout on the first call.
func (d *workTree) createShadow(ctx context.Context) error {
	dir := filepath.Join(d.temp, "shadow")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.Shadow(ctx, dir, true); err != nil {
		return err
	}
	// These have patterns only and run nothing.
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

// run runs git on the work tree, in its shadow.
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

// Toplevel finds the checkout that contains a path and describes it. Nothing of its
// configuration runs. Changes inside of submodules do not count. KindNotFound if there is
// none, KindDenied if it belongs to another user.
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
	if err == nil { // otherwise it is missing or malformed: no submodules
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

// Commit returns the commit of a name in the checkout at dir: a branch, a tag, HEAD, a full
// or short hash. KindNotFound for an unknown name.
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

// Changed returns the paths that differ from HEAD in the work tree or the index, or are
// untracked.
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

// Files returns the paths of the regular files that the index has, sorted.
func (p User) Files(ctx context.Context, dir string) ([]string, error) {
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.copyIndex(ctx); err != nil {
		return nil, err
	}
	out, err := d.run(ctx, git.Call{Args: []string{"ls-files", "-z", "--stage", "--full-name"}, Max: 256 << 20})
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range git.SplitNUL(out) {
		// Links and submodules have other modes.
		if meta, name, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(meta, "100") {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// maxPathsPerCall is the maximum number of paths of a command line.
const maxPathsPerCall = 200

// status returns the entries of git status: two letters, a space, a path.
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
	return api.Errorf(api.KindInvalid, "%s has no work tree to apply the patch to", d.Dir).WithHint("import the result as a branch")
}

// copyIndex copies the checkout's index with its modification time, by which git detects
// changed files.
func (d *workTree) copyIndex(ctx context.Context) error {
	if err := d.createShadow(ctx); err != nil {
		return err
	}
	shared, _ := filepath.Glob(filepath.Join(d.Dir, "sharedindex.*"))
	if len(shared) > 16 {
		return api.Errorf(api.KindExhausted, "%s has too many shared index files", d.Dir)
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
