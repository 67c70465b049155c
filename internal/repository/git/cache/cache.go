package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/storage/space"
)

// Config is the configuration of a [Cache]. Only Dir is required.
type Config struct {
	Program string       // path or name of git (default "git")
	Dir     string       // directory of the cache, absolute; created with mode 0700
	Logger  *slog.Logger // logs each call at level debug; nil discards

	// Insecure allows http:// to other hosts than this one.
	Insecure bool
	// Proxy is the URL of an HTTP proxy for http and https (default none). The
	// environment is ignored.
	Proxy string
	// CAFile has the CA certificates for https, in PEM (default those of git).
	CAFile string

	// MaxBytes is the maximum size of a repository in bytes (default 4 GiB);
	// KindExhausted beyond it. It is checked ten times a second during a fetch, so a
	// fast server can exceed it for a moment.
	MaxBytes int64
	// Space is the file system of Dir: a fetch begins and continues above its floor only, KindExhausted below
	// it. Nil means one without a floor.
	Space *space.Space
	// MaxRefs is the maximum number of branches and tags of a remote (default 100,000).
	MaxRefs int

	// At, if not nil, is called at each named point of a fetch. Tests end the process there:
	// "locked", "listed", "initialized", "fetched", "head set", "renamed".
	At func(point string)
}

// Cache is a directory of bare repositories, one for each remote. Its methods may be
// called concurrently, also by several processes.
type Cache struct {
	cfg     Config
	git     *git.Program
	flights flight.Group[arrival]
	listed  listed
	deflate sync.Pool // of *zlib.Writer
}

// at passes a named point of a fetch.
func (c *Cache) at(point string) {
	if c.cfg.At != nil {
		c.cfg.At(point)
	}
}

// Open finds git and creates the directory. KindUnavailable if git is missing or too old.
func Open(cfg Config) (*Cache, error) {
	if !filepath.IsAbs(cfg.Dir) || strings.ContainsAny(cfg.Dir, "\n\"") {
		return nil, api.Errorf(api.KindInvalid, "repository cache: %q is not an absolute path", cfg.Dir)
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<30)
	cfg.MaxRefs = cmp.Or(cfg.MaxRefs, 100_000)
	if cfg.MaxBytes < 0 || cfg.MaxRefs < 0 {
		return nil, api.Errorf(api.KindInvalid, "repository cache: a limit is negative")
	}
	home := filepath.Join(cfg.Dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	// Only this user may write where git works.
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	p, err := git.Find(cfg.Program, home, cfg.Logger)
	if err != nil {
		return nil, err
	}
	// Remove what killed processes left. Nothing of a running process is that old.
	left, _ := filepath.Glob(filepath.Join(cfg.Dir, "tmp-*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(dir)
		}
	}
	return &Cache{cfg: cfg, git: p}, nil
}

// Repo is a repository of the cache. It has nothing to close.
type Repo struct {
	cache *Cache
	git   *git.Program
	dir   string // bare
	base  string // dir without .git: prefix of the names beside it
}

// repo returns the repository of a remote, which need not exist.
func (c *Cache) repo(r git.Remote) *Repo {
	sum := sha256.Sum256([]byte(r.Key))
	base := filepath.Join(c.cfg.Dir, hex.EncodeToString(sum[:]))
	return &Repo{cache: c, git: c.git, dir: base + ".git", base: base}
}

// lock waits for the lock that allows writing into the repository.
func (r *Repo) lock(ctx context.Context) (*os.File, error) {
	f, err := lockFile(ctx, r.base+".lock")
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "lock a repository of the cache: %w", err)
	}
	// Every writer holds the lock, so this was left by one that died.
	for _, left := range []string{r.base + ".new", r.workDir()} {
		if err := removeLeft(ctx, left); err != nil {
			f.Close()
			return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
		}
	}
	r.removeLeftovers()
	now := time.Now()
	if err := os.Chtimes(f.Name(), now, now); err != nil { // for List
		f.Close()
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	return f, nil
}

// leftTimeout is the maximum wait for the end of a git whose writer has died.
const leftTimeout = 10 * time.Second

// removeLeft removes a directory that a writer left which died. A git that it had started may live a
// moment longer, and make files in it meanwhile.
func removeLeft(ctx context.Context, path string) error {
	late := time.Now().Add(leftTimeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := os.RemoveAll(path)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Now().After(late) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// workDir is the temporary directory of the writer that holds the lock.
func (r *Repo) workDir() string { return r.base + ".work" }

// removeLeftovers removes the locks and incomplete packs that a killed git left.
func (r *Repo) removeLeftovers() {
	filepath.WalkDir(r.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		inPack := filepath.Base(filepath.Dir(p)) == "pack"
		if strings.HasSuffix(p, ".lock") || strings.HasPrefix(d.Name(), "tmp_") || inPack && strings.HasPrefix(d.Name(), ".tmp") {
			os.Remove(p)
		}
		return nil
	})
}

// run runs git in the repository.
func (r *Repo) run(ctx context.Context, c git.Call) ([]byte, error) {
	c.GitDir = r.dir
	return r.git.Run(ctx, c)
}

// Find returns the cached copy of a remote without fetching. KindNotFound if there is
// none.
func (c *Cache) Find(address string) (*Repo, error) {
	m, err := git.ParseRemote(address, c.cfg.Insecure)
	if err != nil {
		return nil, err
	}
	r := c.repo(m)
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "%s is not in the repository cache", git.DisplayAddress(address)).
			WithHint("Create a task on it to fetch it again.")
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	return r, nil
}

// Remote parses an address by the rules of the cache.
func (c *Cache) Remote(address string) (git.Remote, error) {
	return git.ParseRemote(address, c.cfg.Insecure)
}

// NameOf returns the name that [Cache.List] has for the copy of a remote, if there is one.
func (c *Cache) NameOf(address string) (string, error) {
	m, err := c.Remote(address)
	if err != nil {
		return "", err
	}
	return c.repo(m).Name(), nil
}

// The refs of a repository in the cache. They are outside of refs/heads and refs/tags,
// so git finds none of them by a short name.
const (
	remoteHeads = "refs/hortus/remote/heads/"
	remoteTags  = "refs/hortus/remote/tags/"
	remoteHead  = "refs/hortus/remote-head" // a symbolic ref, or a commit if the remote's is detached
	ownBranches = "refs/hortus/branches/"
)

// Cached is a repository of a cache.
type Cached struct {
	// Name is a hash of its address.
	Name string
	Path string
	// Used is when it was last written to or fetched.
	Used time.Time
}

// List returns the repositories in the cache, sorted by name.
func (c *Cache) List() ([]Cached, error) {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	var out []Cached
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".git")
		if !ok || !e.IsDir() || !git.IsHash(name) {
			continue
		}
		used, err := os.Stat(filepath.Join(c.cfg.Dir, name+".lock"))
		if err != nil {
			continue // being created or removed
		}
		out = append(out, Cached{Name: name, Path: filepath.Join(c.cfg.Dir, e.Name()), Used: used.ModTime()})
	}
	return out, nil
}

// Remove removes a repository with all commits of tasks in it; it is idempotent.
// KindConflict while it is being written to. Concurrent readers fail, so the caller must
// ensure that no task uses it.
func (c *Cache) Remove(ctx context.Context, name string) error {
	if !git.IsHash(name) {
		return api.Errorf(api.KindInvalid, "%.80q is not a repository of the cache", name)
	}
	base := filepath.Join(c.cfg.Dir, name)
	now, cancel := context.WithCancel(ctx)
	cancel() // do not wait
	f, err := lockFile(now, base+".lock")
	if err != nil {
		if ctx.Err() == nil {
			err = api.Errorf(api.KindConflict, "repository %.12s of the cache is in use", name)
		}
		return err
	}
	defer f.Close()
	// Rename it first: an interrupted removal must not look complete. The next writer
	// removes the rest.
	aside := base + ".new"
	defer c.listed.forget(base + ".git")
	err = os.RemoveAll(aside)
	if err == nil {
		if err = os.Rename(base+".git", aside); os.IsNotExist(err) {
			return nil
		}
	}
	if err == nil {
		err = os.RemoveAll(aside)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "remove repository %.12s of the cache: %w", name, err)
	}
	return nil
}
