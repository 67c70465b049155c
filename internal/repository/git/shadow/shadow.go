package shadow

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Repository is a repository on this machine that another user wrote. Git does not run in
// it but in a shadow of it, so that its configuration and its hooks have no effect.
type Repository struct {
	git    *git.Program
	Root   string // of the work tree; empty if the repository is bare
	Dir    string // the .git directory
	Common string // has objects and refs; differs from Dir for a linked work tree
	Head   string // "refs/heads/..." or a hash
	Config map[string]string
}

// NewOwn returns a bare repository that this program created.
func NewOwn(p *git.Program, dir, head string) *Repository {
	return &Repository{git: p, Dir: dir, Common: dir, Head: head, Config: map[string]string{}}
}

const (
	maxConfigFile = 1 << 20
	maxPackedRefs = 64 << 20
	maxLooseRefs  = 100_000
)

// Open finds the repository at a path: a work tree or a bare one. It must belong to this
// user or one of owners.
func Open(p *git.Program, ctx context.Context, path string, owners []uint32) (*Repository, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, api.Errorf(api.KindNotFound, "repository not found: %w", err)
	}
	if strings.ContainsAny(path, "\n\r") {
		return nil, api.Errorf(api.KindInvalid, "%q: the path of a repository must not contain a line end", path)
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil, api.Errorf(api.KindNotFound, "%s is not a directory", path)
	}
	if err := checkOwner(path, info, owners); err != nil {
		return nil, err
	}
	f := &Repository{git: p, Root: path}
	dot := filepath.Join(path, ".git")
	switch info, err := os.Lstat(dot); {
	case err == nil && info.IsDir():
		f.Dir = dot
	case err == nil && info.Mode().IsRegular():
		if f.Dir, err = readPointer(dot, "gitdir: "); err != nil {
			return nil, err
		}
	case err == nil:
		return nil, api.Errorf(api.KindUnsupported, "%s is neither a directory nor a file", dot)
	case IsBare(path):
		f.Root, f.Dir = "", path
	default:
		return nil, api.Errorf(api.KindNotFound, "%s is not a git repository", path).WithHint("create one there: git init && git add . && git commit")
	}
	f.Common = f.Dir
	linked := false
	if _, err := os.Lstat(filepath.Join(f.Dir, "commondir")); err == nil {
		linked = true
		if f.Common, err = readPointer(filepath.Join(f.Dir, "commondir"), ""); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{f.Dir, f.Common, filepath.Join(f.Common, "objects")} {
		info, err := os.Lstat(d)
		if err != nil || !info.IsDir() {
			return nil, api.Errorf(api.KindNotFound, "%s is not a git repository: %s is not a directory", path, d)
		}
		if err := checkOwner(d, info, owners); err != nil {
			return nil, err
		}
	}
	if err := f.readConfig(ctx); err != nil {
		return nil, err
	}
	if f.Root != "" && f.Dir != dot {
		if err := f.checkBackReference(dot, linked); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Path returns the work tree, or the repository itself if it is bare.
func (f *Repository) Path() string {
	if f.Root != "" {
		return f.Root
	}
	return f.Dir
}

// CheckComplete returns KindUnsupported for a repository that borrows objects from another
// one: its user may not be allowed to read that one.
func (f *Repository) CheckComplete() error {
	borrows := filepath.Join(f.Common, "objects", "info", "alternates")
	if _, err := os.Lstat(borrows); !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindUnsupported, "%s borrows objects from another repository (objects/info/alternates)", f.Path()).
			WithHint("copy the objects: git repack -a -d && rm %s", borrows)
	}
	return nil
}

// checkBackReference returns KindDenied for a .git file that names a repository which does
// not refer back to it: an unpacked directory could point at any repository of its user.
func (f *Repository) checkBackReference(dot string, linked bool) error {
	back := ""
	if linked {
		back, _ = readPointer(filepath.Join(f.Dir, "gitdir"), "")
	} else if w := f.Config["core.worktree"]; w != "" {
		if !filepath.IsAbs(w) {
			w = filepath.Join(f.Dir, w)
		}
		back = filepath.Join(w, ".git")
	}
	if a, err := os.Stat(dot); err == nil {
		if b, err := os.Stat(back); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	return api.Errorf(api.KindDenied, "%s names %s, which does not name it", dot, f.Dir).
		WithHint("if both are yours and the work tree was moved: git worktree repair")
}

// readPointer reads a file that has a path, which may be relative to it.
func readPointer(name, prefix string) (string, error) {
	b, err := ReadFile(name, 8<<10)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	if !ok || to == "" || strings.ContainsAny(to, "\n\r\x00") {
		return "", api.Errorf(api.KindInvalid, "%s is malformed", name)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(name), to)
	}
	if real, err := filepath.EvalSymlinks(to); err == nil {
		return real, nil
	}
	return filepath.Clean(to), nil
}

func IsBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// ReadFile reads a regular file of at most max bytes. It does not follow a link or wait
// for a pipe.
func ReadFile(name string, max int64) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, api.Errorf(api.KindNotFound, "%w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, api.Errorf(api.KindUnsupported, "%s is not a regular file", name)
	}
	f, err := openRegular(name)
	if err != nil {
		return nil, api.Errorf(api.KindDenied, "%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "%w", err)
	}
	if int64(len(b)) > max {
		return nil, api.Errorf(api.KindExhausted, "%s exceeds %d bytes", name, max)
	}
	return b, nil
}

// readConfig reads HEAD and the configuration.
func (f *Repository) readConfig(ctx context.Context) error {
	b, err := ReadFile(filepath.Join(f.Dir, "HEAD"), 4<<10)
	if err != nil {
		return err
	}
	f.Head = strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(f.Head, "ref:"); ok {
		f.Head = strings.TrimSpace(ref)
		if !strings.HasPrefix(f.Head, "refs/heads/") || git.CheckRevision(f.Head) != nil {
			return api.Errorf(api.KindInvalid, "%s: HEAD is not a branch", f.Dir)
		}
	} else if !git.IsHash(f.Head) {
		return api.Errorf(api.KindInvalid, "%s: HEAD is malformed", f.Dir)
	}
	if b, err = ReadFile(filepath.Join(f.Common, "config"), maxConfigFile); err != nil {
		return err
	}
	out, err := f.git.Run(ctx, git.Call{Args: []string{"config", "--file", "-", "--no-includes", "--null", "--list"}, Stdin: strings.NewReader(string(b)), Max: 4 * maxConfigFile})
	if err != nil {
		return api.Errorf(api.KindInvalid, "%s: its configuration is malformed: %w", f.Common, err)
	}
	f.Config = map[string]string{}
	for _, entry := range strings.Split(string(out), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		f.Config[key] = value
	}
	if s := f.Config["extensions.refstorage"]; s != "" && s != "files" {
		return api.Errorf(api.KindUnsupported, "%s stores its refs in the unsupported format %q", f.Common, git.Sanitize(s, 50)).
			WithHint("git refs migrate --ref-format=files")
	}
	if s := f.Format(); s != "sha1" && s != "sha256" {
		return api.Errorf(api.KindUnsupported, "%s has the unsupported object format %q", f.Common, git.Sanitize(s, 50))
	}
	return nil
}

func (f *Repository) Format() string {
	if s := f.Config["extensions.objectformat"]; s != "" {
		return s
	}
	return "sha1"
}

// Shadow creates a bare repository at dir with copies of the refs. If borrow is set, it
// uses the objects of the original.
func (f *Repository) Shadow(ctx context.Context, dir string, borrow bool) error {
	if err := git.InitBare(ctx, f.git, dir, f.Format()); err != nil {
		return err
	}
	put := func(name string, b []byte) error {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			return api.Errorf(api.KindInternal, "%w", err)
		}
		return nil
	}
	head := f.Head
	if !git.IsHash(head) {
		head = "ref: " + head
	}
	if err := put("HEAD", []byte(head+"\n")); err != nil {
		return err
	}
	if borrow {
		if err := put("objects/info/alternates", []byte(filepath.Join(f.Common, "objects")+"\n")); err != nil {
			return err
		}
	}
	for name, max := range map[string]int64{"packed-refs": maxPackedRefs, "shallow": 1 << 20} {
		b, err := ReadFile(filepath.Join(f.Common, name), max)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err == nil {
			err = put(name, b)
		}
		if err != nil {
			return err
		}
	}
	count := 0
	for _, under := range []string{"refs/heads", "refs/tags"} {
		err := filepath.WalkDir(filepath.Join(f.Common, under), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(p, ".lock") {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			if count++; count > maxLooseRefs {
				return api.Errorf(api.KindExhausted, "%s has more than %d unpacked refs", f.Common, maxLooseRefs).WithHint("git pack-refs --all")
			}
			rel, err := filepath.Rel(f.Common, p)
			if err != nil {
				return err
			}
			b, err := ReadFile(p, 4<<10)
			if err != nil {
				return err
			}
			if git.IsHash(strings.TrimSpace(string(b))) {
				return put(filepath.ToSlash(rel), b)
			}
			return nil
		})
		if err != nil {
			return api.AsError(err)
		}
	}
	return nil
}

// Explain turns an error of git in a shadow, dir, into one about the repository.
func (f *Repository) Explain(err error, dir string) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Message = strings.ReplaceAll(c.Message, dir, f.Dir)
	if c.Kind != api.KindInternal && c.Kind != api.KindUnavailable && c.Kind != api.KindDenied {
		return &c
	}
	for key, value := range f.Config {
		if key == "extensions.partialclone" || strings.HasSuffix(key, ".promisor") && value == "true" {
			return api.Errorf(api.KindUnsupported, "%s is a partial clone without some objects: %w", f.Dir, &c).
				WithHint("use the address of its remote, or complete it: git fetch --refetch --no-filter")
		}
	}
	return &c
}

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
	// The only call in a repository of another user. Git writes the ref in the format of
	// the repository. Of its configuration update-ref runs only a hook, which
	// core.hooksPath disables.
	if _, err := f.git.Run(ctx, git.Call{GitDir: f.Common, Args: []string{"update-ref", "--no-deref", "refs/heads/" + name, commit, was}, Config: []string{"core.logAllRefUpdates", "true"}}); err != nil {
		return api.Errorf(api.KindConflict, "the branch %q of %s cannot be written: %w", name, f.Common, err).
			WithHint("the branch moved, or the name of another branch is a prefix of this one")
	}
	return nil
}
