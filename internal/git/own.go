package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
)

// Checkout is the work tree of the person who asks.
type Checkout struct {
	Root      string // absolute, links resolved
	Head      string // the commit that is checked out; empty before the first
	Branch    string // without refs/heads/; empty where no branch is checked out
	Dirty     bool   // files that git tracks differ from the commit
	Untracked bool   // there are files that git neither tracks nor ignores
	Origin    string // the address of the remote "origin", without user and password; may be empty
}

// desk is a checkout that was opened, with a directory aside for what is made on
// the way.
type desk struct {
	*place
	git   *program
	aside string
}

// open finds the checkout that path is in. The caller calls the function that comes
// back when it is done.
func open(ctx context.Context, name, path string) (*desk, func(), error) {
	if !filepath.IsAbs(path) {
		return nil, nil, api.Errorf(api.KindInvalid, "%q is not an absolute path", path)
	}
	aside, err := os.MkdirTemp("", "hortus-git-")
	if err != nil {
		return nil, nil, api.Errorf(api.KindInternal, "%w", err)
	}
	done := func() { os.RemoveAll(aside) }
	d, err := openIn(ctx, name, path, aside)
	if err != nil {
		done()
		return nil, nil, err
	}
	return d, done, nil
}

func openIn(ctx context.Context, name, path, aside string) (*desk, error) {
	home := filepath.Join(aside, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "%w", err)
	}
	p, err := find(name, home)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, api.Errorf(api.KindNotFound, "%w", err)
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			found, err := locate(p, ctx, dir, nil)
			if err != nil {
				return nil, err
			}
			return &desk{found, p, aside}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, api.Errorf(api.KindNotFound, "%s is in no checkout of a git repository", path).
				WithHint("go into one, or name one; or make one: git init")
		}
	}
}

// spellings are settings of a checkout that only say how its files are written.
var spellings = []string{"core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.precomposeunicode", "core.trustctime", "core.checkstat"}

// in runs git over the work tree, by way of a shadow, which is made by the first.
func (d *desk) in(ctx context.Context, c call) ([]byte, error) {
	c.gitDir, c.dir = filepath.Join(d.aside, "shadow"), d.root
	if _, err := os.Stat(c.gitDir); errors.Is(err, fs.ErrNotExist) {
		if err := d.shadow(ctx, c.gitDir, true); err != nil {
			return nil, err
		}
		// These hold patterns and nothing that could run.
		for _, name := range []string{"info/exclude", "info/attributes"} {
			if b, err := readSmall(filepath.Join(d.common, name), 1<<20); err == nil {
				to := filepath.Join(c.gitDir, name)
				if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
					err = os.WriteFile(to, b, 0o600)
				}
				if err != nil {
					return nil, api.Errorf(api.KindInternal, "%w", err)
				}
			}
		}
	}
	c.env = append(c.env, "GIT_WORK_TREE="+d.root)
	c.config = append(c.config, "core.bare", "false")
	for _, key := range spellings {
		if v, ok := d.config[key]; ok {
			c.config = append(c.config, key, v)
		}
	}
	return d.git.run(ctx, c)
}

// Toplevel finds the checkout that a path is in and says what it is at. Nothing that
// its configuration names is run, and submodules are not looked into. KindNotFound
// where there is none, KindDenied where it belongs to another user. program is git;
// that of PATH where it is empty.
func Toplevel(ctx context.Context, program, path string) (Checkout, error) {
	d, done, err := open(ctx, program, path)
	if err != nil {
		return Checkout{}, err
	}
	defer done()
	c := Checkout{Root: d.root, Origin: clean(bareAddress(d.config["remote.origin.url"]), maxURL)}
	if !isHash(d.head) {
		c.Branch = strings.TrimPrefix(d.head, "refs/heads/")
	}
	out, err := d.in(ctx, call{args: []string{"cat-file", "--batch-check=%(objecttype) %(objectname)"}, stdin: strings.NewReader("HEAD^{commit}\n"), max: 64 << 10})
	if err != nil {
		return Checkout{}, err
	}
	if hash, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "commit "); ok {
		c.Head = hash
	}
	if err := d.index(); err != nil {
		return Checkout{}, err
	}
	out, err = d.in(ctx, call{args: []string{"status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames", "--no-ahead-behind"}, max: 1 << 30})
	if err != nil {
		return Checkout{}, err
	}
	for _, entry := range fields(out) {
		if strings.HasPrefix(entry, "?? ") {
			c.Untracked = true
		} else if entry != "" {
			c.Dirty = true
		}
	}
	return c, nil
}

// bareAddress takes user and password out of a URL.
func bareAddress(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	host, path, _ := strings.Cut(rest, "/")
	if strings.EqualFold(scheme, "ssh") && !strings.Contains(host, ":") {
		return s
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	return scheme + "://" + host + "/" + path
}

// index copies the checkout's index, with its time, which tells git what may have
// changed since.
func (d *desk) index() error {
	shared, _ := filepath.Glob(filepath.Join(d.dir, "sharedindex.*"))
	if len(shared) > 16 {
		return api.Errorf(api.KindExhausted, "%s has too many parts of an index", d.dir)
	}
	for _, name := range append(shared, filepath.Join(d.dir, "index")) {
		b, err := readSmall(name, maxIndexFile)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(d.aside, "shadow", filepath.Base(name))
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

// ApplyOptions says how a patch is applied.
type ApplyOptions struct {
	Check    bool  // only say whether it would
	Index    bool  // to the index as well, which must match the files
	ThreeWay bool  // where it does not fit, merge with the version it was made from; implies Index
	Max      int64 // bytes of the patch; 256 MiB where 0
}

// Apply applies a patch to the checkout at dir: all of it or, with KindConflict and
// the files that are in the way, nothing. A patch cannot write outside of the
// checkout, through a link, or into .git. No hook and no filter of the checkout runs.
// program is git; that of PATH where it is empty.
func Apply(ctx context.Context, program, dir string, patch io.Reader, opt ApplyOptions) error {
	if opt.Max == 0 {
		opt.Max = 256 << 20
	}
	b, err := io.ReadAll(io.LimitReader(patch, opt.Max+1))
	if err != nil {
		return api.Errorf(api.KindInternal, "apply: the patch cannot be read: %w", err)
	}
	if int64(len(b)) > opt.Max {
		return api.Errorf(api.KindExhausted, "apply: the patch is larger than %d bytes", opt.Max)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	d, done, err := open(ctx, program, dir)
	if err != nil {
		return err
	}
	defer done()
	args := []string{"apply", "--whitespace=nowarn"}
	env := []string{}
	if opt.ThreeWay || opt.Index {
		env = append(env, "GIT_INDEX_FILE="+filepath.Join(d.dir, "index"), "GIT_OBJECT_DIRECTORY="+filepath.Join(d.common, "objects"))
		args = append(args, map[bool]string{true: "--3way", false: "--index"}[opt.ThreeWay])
	}
	run := func(extra ...string) error {
		conflict := ""
		_, err := d.in(ctx, call{args: append(append(append([]string{}, args...), extra...), "-"), env: env, stdin: bytes.NewReader(b), lines: func(line string) {
			if strings.HasSuffix(line, "with conflicts.") {
				conflict += line + "; "
			}
		}})
		if conflict != "" && len(extra) > 0 {
			return api.Errorf(api.KindConflict, "apply: %s", clean(conflict, 2<<10))
		}
		return err
	}
	// A merge writes what conflicts, so it is tried first without writing.
	if err := run("--check"); err != nil || opt.Check {
		return notApplied(err)
	}
	return notApplied(run())
}

// notApplied makes an error of git apply one about the patch.
func notApplied(err error) error {
	var e *api.Error
	if err != nil && errors.As(err, &e) {
		for text, kind := range map[string]api.Kind{"corrupt patch": api.KindInvalid, "No valid patches": api.KindInvalid, "patch with only garbage": api.KindInvalid,
			"invalid path": api.KindDenied, "beyond a symbolic link": api.KindDenied, "outside repository": api.KindDenied} {
			if strings.Contains(e.Message, text) {
				return api.Errorf(kind, "the patch was refused, and nothing was changed: %w", err)
			}
		}
	}
	if err != nil && errors.As(err, &e) && (exitCode(err, 1) || exitCode(err, 128)) {
		return api.Errorf(api.KindConflict, "the patch does not apply, and nothing was changed: %w", err).
			WithHint("commit or stash what you changed in these files, or take the result as a branch")
	}
	return err
}

// Import takes a branch out of a bundle into the repository of the checkout at dir,
// as a new local branch of that name. The work tree and the index are not touched.
// Where the branch is there already: nothing to do if it is at the same commit, else
// KindConflict. program is git; that of PATH where it is empty.
func Import(ctx context.Context, program, dir, bundle, branch string) error {
	d, done, err := open(ctx, program, dir)
	if err != nil {
		return err
	}
	defer done()
	if err := d.git.checkBranch(ctx, branch); err != nil {
		return err
	}
	if info, err := os.Lstat(bundle); err != nil || !info.Mode().IsRegular() || !filepath.IsAbs(bundle) {
		return api.Errorf(api.KindInvalid, "import: %q is not the absolute path of a file", bundle)
	}
	here := filepath.Join(d.aside, "received")
	if err := d.shadow(ctx, here, true); err != nil {
		return err
	}
	_, err = d.git.run(ctx, call{gitDir: here, args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", bundle, "refs/heads/" + branch + ":refs/hortus/import"},
		env: []string{allow("file")}, config: []string{"protocol.file.allow", "always"}})
	if err != nil {
		return api.Errorf(api.KindConflict, "import: the bundle does not fit this repository, or does not have the branch %q: %w", branch, err).
			WithHint("fetch what your repository is behind, and try again")
	}
	commit, err := d.git.line(ctx, call{gitDir: here, args: []string{"rev-parse", "--verify", "--end-of-options", "refs/hortus/import^{commit}"}})
	if err != nil {
		return err
	}
	at, err := d.place.branch(ctx, filepath.Join(d.aside, "look"), branch)
	if err != nil {
		return err
	}
	switch at {
	case commit:
		return nil
	case "":
		return d.receive(ctx, filepath.Join(d.aside, "into"), here, commit, branch, "")
	}
	return api.Errorf(api.KindConflict, "import: the branch %q is there already, at %.12s", branch, at).
		WithHint("rename it (git branch -m %s ...) or delete it, and try again", branch)
}
