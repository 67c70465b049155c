package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Config is what a [Cache] needs. Dir must be given.
type Config struct {
	Program string       // git; "git" of PATH where empty
	Dir     string       // of the cache, made with mode 0700 where it is missing
	Logger  *slog.Logger // each call at level debug; none where nil

	// Insecure lets http:// go to other machines than this one.
	Insecure bool
	// Proxy is the address of an HTTP proxy for http and https; none where empty. The
	// environment of Hortus is not asked.
	Proxy string
	// CAFile holds the certificates, in PEM, that servers are checked against; git's
	// own where empty.
	CAFile string

	// MaxBytes bounds what a repository takes in the cache: KindExhausted beyond. It
	// is looked at several times a second while something comes in, so that a fast
	// server can exceed it for a moment. 4 GiB where 0.
	MaxBytes int64
	// MaxRefs bounds the branches and tags of a remote; 100,000 where 0.
	MaxRefs int
}

// Cache is a directory of bare repositories, one for each remote. Its methods may
// be called at once, from several processes as well.
type Cache struct {
	cfg Config
	git *git.Program
}

// Open finds git and makes the directory. KindUnavailable where git is missing or
// too old.
func Open(cfg Config) (*Cache, error) {
	if !filepath.IsAbs(cfg.Dir) || strings.ContainsAny(cfg.Dir, "\n\"") {
		return nil, api.Errorf(api.KindInvalid, "the cache of repositories: %q is not an absolute path", cfg.Dir)
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 4 << 30
	}
	if cfg.MaxRefs == 0 {
		cfg.MaxRefs = 100_000
	}
	if cfg.MaxBytes < 0 || cfg.MaxRefs < 0 {
		return nil, api.Errorf(api.KindInvalid, "the cache of repositories: a bound is negative")
	}
	home := filepath.Join(cfg.Dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
	}
	// Nobody but us may put anything where git works.
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
	}
	p, err := git.Find(cfg.Program, home, cfg.Logger)
	if err != nil {
		return nil, err
	}
	// What a killed process left. Nothing of a living one is so old.
	left, _ := filepath.Glob(filepath.Join(cfg.Dir, "tmp-*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(dir)
		}
	}
	return &Cache{cfg: cfg, git: p}, nil
}

// Repo is one repository of the cache. It has nothing to close.
type Repo struct {
	cache *Cache
	git   *git.Program
	dir   string // bare
	base  string // dir without its ending: what lies beside it
}

// repo is where the repository of a remote is, whether it is there or not.
func (c *Cache) repo(r git.Remote) *Repo {
	sum := sha256.Sum256([]byte(r.Key))
	base := filepath.Join(c.cfg.Dir, hex.EncodeToString(sum[:]))
	return &Repo{cache: c, git: c.git, dir: base + ".git", base: base}
}

// lock waits for the right to write into the repository.
func (r *Repo) lock(ctx context.Context) (*os.File, error) {
	f, err := lockFile(ctx, r.base+".lock")
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "the lock of a repository in the cache: %w", err)
	}
	// Everything here is of a writer that died, for every writer holds the lock.
	for _, left := range []string{r.base + ".new", r.workDir()} {
		if err := os.RemoveAll(left); err != nil {
			f.Close()
			return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
		}
	}
	r.removeLeftovers()
	now := time.Now()
	if err := os.Chtimes(f.Name(), now, now); err != nil { // for List
		f.Close()
		return nil, api.Errorf(api.KindInternal, "the cache of repositories: %w", err)
	}
	return f, nil
}

// work is the directory for what a writer makes on the way. It exists only under
// the lock.
func (r *Repo) workDir() string { return r.base + ".work" }

// sweep removes the locks and half-written packs that a killed git left.
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
