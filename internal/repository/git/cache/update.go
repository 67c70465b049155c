package cache

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git"
)

// Fetched is what a fetch did.
type Fetched struct {
	// Cold is true for a first clone: the cache had no copy.
	Cold bool
	// Unchanged is true if all refs were as in the cache, so that no object was requested.
	Unchanged bool
	// Objects were received, in Bytes of the disk.
	Objects int64
	Bytes   int64
	// Shared is true if the fetch was started by another call, whose result this is.
	Shared bool
}

// arrival is the result of one fetch, for all that waited for it.
type arrival struct {
	repo *Repo
	did  Fetched
}

// Fetch is [Cache.Update] for callers that only need the repository.
func (c *Cache) Fetch(ctx context.Context, s git.Source, progress func(line string)) (*Repo, error) {
	r, _, err := c.Update(ctx, s, progress)
	return r, err
}

// Update creates or updates the cached copy of a remote. Branches and tags that the remote
// has removed are removed; their commits stay readable by hash. progress, if not nil, is
// called with each line of git's progress, sanitized, one after the other, until Update
// returns.
//
// Calls for the same remote with the same credentials share one fetch until it lists the
// remote's refs. A later call waits for it and lists them again, so that its result has
// everything that was pushed before the call; if nothing was, it requests no object.
//
// Objects are checked by git's fsck before they get a name: KindDenied. Other kinds:
// KindInvalid and KindNotFound for the address, KindUnauthenticated, KindDenied,
// KindExhausted for a limit of Config, KindUnavailable.
func (c *Cache) Update(ctx context.Context, s git.Source, progress func(line string)) (*Repo, Fetched, error) {
	a, err := c.access(s)
	if err != nil {
		return nil, Fetched{}, err
	}
	// The owners decide whether a path may be read, as credentials do for a server.
	key := a.Key
	for _, id := range s.Owners {
		key += "\x00" + strconv.Itoa(int(id))
	}
	if a.auth != nil {
		key += "\x00" + a.auth.Basic()
	}
	got, shared, err := c.flights.Do(ctx, key, progress, func(ctx context.Context, f *flight.Flight) (arrival, error) {
		r, did, err := c.fetchOnce(ctx, a, s, f.Depart, f.Note)
		return arrival{r, did}, err
	})
	if err != nil {
		if ctx.Err() != nil && api.KindOf(err) != api.KindOf(context.Cause(ctx)) {
			err = context.Cause(ctx)
		}
		return nil, Fetched{}, api.AsError(c.full(err))
	}
	got.did.Shared = shared
	return got.repo, got.did, nil
}

// full names the disk in the error of one that is full.
func (c *Cache) full(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", c.cfg.Dir, err).WithHint("free space there, for example with hortus gc")
}

// current returns the refs of the remote as the cache has them.
func (r *Repo) current(ctx context.Context) (advertisement, error) {
	a := advertisement{refs: map[string]string{}}
	max := int64(r.cache.cfg.MaxRefs+2)*2*500 + 4096
	out, err := r.run(ctx, git.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname) %(symref)", "refs/hortus/remote/", remoteHead}, Max: max})
	if err != nil {
		return a, err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 3 || !git.IsHash(f[0]) {
			return a, api.Errorf(api.KindInternal, "git for-each-ref printed unexpected output: %q", git.Sanitize(line, 200))
		}
		switch name := f[1]; {
		case name == remoteHead:
			a.head = f[0]
			if b, ok := strings.CutPrefix(f[2], remoteHeads); ok {
				a.branch = "refs/heads/" + b
			}
		case strings.HasPrefix(name, remoteHeads):
			a.refs["refs/heads/"+name[len(remoteHeads):]] = f[0]
		case strings.HasPrefix(name, remoteTags):
			a.refs["refs/tags/"+name[len(remoteTags):]] = f[0]
		}
	}
	return a, nil
}

func (a advertisement) equal(b advertisement) bool {
	return a.head == b.head && a.branch == b.branch && maps.Equal(a.refs, b.refs)
}

// received reads the number of objects from a line of git's progress, as in
// "Receiving objects:  50% (3/6), 1.2 KiB".
func received(line string) (int64, bool) {
	rest, ok := strings.CutPrefix(line, "Receiving objects:")
	if !ok {
		return 0, false
	}
	_, rest, _ = strings.Cut(rest, "(")
	in, _, ok := strings.Cut(rest, ")")
	_, total, ok2 := strings.Cut(in, "/")
	n, err := strconv.ParseInt(total, 10, 64)
	return n, ok && ok2 && err == nil && n >= 0
}

// isProgress reports whether a line is one of git's progress, as in "remote: Counting objects:
// 50% (3/6)", and not advice or what a server says.
func isProgress(line string) bool {
	line = strings.TrimPrefix(line, "remote: ")
	what, rest, ok := strings.Cut(line, ": ")
	rest = strings.TrimLeft(rest, " ")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' && strings.HasSuffix(what, "ing objects") || strings.HasPrefix(line, "Resolving deltas: ")
}

// Size returns the size of the repository's objects on the disk, in bytes.
func (r *Repo) Size() int64 { return sizeOf(r.dir) }

// Name returns the name that [Cache.List] has for the repository.
func (r *Repo) Name() string { return filepath.Base(r.base) }

func sizeOf(dir string) (sum int64) {
	filepath.WalkDir(filepath.Join(dir, "objects"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
