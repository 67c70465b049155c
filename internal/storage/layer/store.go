package layer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/mount"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/storedir"
)

// treeName is the record of a tree.
const treeName = "tree.json"

// maxTree bounds a tree.json while it is read, in bytes.
const maxTree = 1 << 20

// what names the store in errors.
const what = "layer store"

// aside is the prefix of what is still being written. The name of a finished
// tree never begins with it.
const aside = "new-"

var digestForm = regexp.MustCompile(`^(host|sha256)-[0-9a-f]{64}$`)

// Valid reports whether the digest has one of the two forms. A valid digest is safe
// as the name of a directory.
func (d Digest) Valid() bool { return digestForm.MatchString(string(d)) }

// Store keeps trees below one directory, each in a directory that is named by
// its digest:
//
//	<digest>/tree.json     the Tree
//	<digest>/image.erofs   its files, if it is packed
//	<digest>/...           otherwise the files that build wrote
//	new-*/                 being written, corrupt, or left by a process that died
//
// Several processes may use one directory at the same time. Its methods may be called from
// several goroutines.
type Store struct {
	cfg  Config
	dir  string
	at   func(point string) // called at points of Put, in tests of crashes; usually nil
	find sync.Once
	how  *mount.Mounter

	ctx     context.Context // of what works in the background
	cancel  context.CancelFunc
	work    sync.WaitGroup
	corrupt atomic.Int64
	// archiveDown is until when the archive is not asked, in nanoseconds since 1970.
	archiveDown atomic.Int64

	mu      sync.Mutex
	mounts  map[Digest]*treeMount
	retired []*treeMount // somebody may still use them
}

// Config configures a Store.
type Config struct {
	// Dir is created with mode 0700 if it is missing.
	Dir string
	// NoPacking keeps all trees as directories, and refuses packed ones.
	NoPacking bool
	// PackEntries and PackBytes are the minimum size of a tree that is packed; it needs to
	// reach one of them. The defaults are 256 files and directories, and 8 MiB.
	PackEntries int
	PackBytes   int64
	// VerifyWait is the maximum time that the first use of a packed tree waits for its
	// verification (default 500 ms). A larger tree is verified while it is used.
	VerifyWait time.Duration
	// Archive, unless it is nil, is where Put looks for a tree before it builds it, and where
	// the store saves, in the background, the packed trees that were built.
	Archive Archive
	// Space is the file system of Dir; nil means one without a floor.
	Space *space.Space
	// Added, unless it is nil, is called when a tree was added. It must not wait.
	Added  func()
	Logger *slog.Logger
}

// Open opens the store at dir with the default configuration; see New.
func Open(dir string) (*Store, error) { return New(Config{Dir: dir}) }

// New opens a store, making it where it is missing. What a process that is gone left half-written
// is no layer; it is removed in the background, until Close.
func New(cfg Config) (*Store, error) {
	abs, left, err := storedir.Leftovers(what, cfg.Dir, aside)
	if err != nil {
		return nil, err
	}
	cfg.PackEntries, cfg.PackBytes = cmp.Or(cfg.PackEntries, packEntries), cmp.Or(cfg.PackBytes, packBytes)
	cfg.VerifyWait = cmp.Or(cfg.VerifyWait, 500*time.Millisecond)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Store{cfg: cfg, dir: abs, mounts: map[Digest]*treeMount{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if len(left) > 0 {
		s.work.Go(func() { s.sweep(left) })
	}
	return s, nil
}

// sweep removes leftovers.
func (s *Store) sweep(left []string) {
	for _, path := range left {
		if err := storedir.Sweep(path, func(path string) error { return removeUntil(s.ctx, path) }); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Error("cannot remove what is left of a layer; the next daemon tries again", "path", path, "error", err)
		}
	}
}

// Close ends removals, verifications and unmounts what is mounted in this process. Sandboxes keep what
// they have. No lease may be left.
func (s *Store) Close() {
	s.cancel()
	s.work.Wait()
	s.mu.Lock()
	all := append(s.retired, slices.Collect(maps.Values(s.mounts))...)
	s.retired, s.mounts = nil, map[Digest]*treeMount{}
	s.mu.Unlock()
	for _, m := range all {
		<-m.ready
		if m.image != nil {
			m.image.Close()
		}
	}
}

// Dir is where the store lives.
func (s *Store) Dir() string { return s.dir }

// Put makes the tree of that digest unless it is there. build writes files below
// dir, an empty directory with mode 0755 of its own, and returns the Tree; paths
// of the Tree that lie below dir are moved along when the tree is renamed into
// place. What build wrote is flushed before it becomes visible, so that a tree
// that is found is whole, also after a power failure.
//
// A tree that lies wholly in one directory below dir, such as dir/root, is packed into an image
// if the host can mount one and the tree is not small. Then the directory is gone, and the Root
// of the result lies in the mounted image.
//
// When several Puts of one digest run at the same time, each builds and the
// first one to finish wins; the others return the winner's tree.
func (s *Store) Put(ctx context.Context, digest Digest, build func(ctx context.Context, dir string) (Tree, error)) (Tree, error) {
	return s.put(ctx, digest, func(ctx context.Context, tmp string) (Tree, archived, error) {
		tree, has, err := s.restore(ctx, digest, tmp)
		if err == nil && has != restored {
			tree, err = build(ctx, tmp)
		}
		return tree, has, err
	})
}

// put is Put of what make makes in a directory; it says what the archive has of it.
func (s *Store) put(ctx context.Context, digest Digest, make func(ctx context.Context, tmp string) (Tree, archived, error)) (Tree, error) {
	if !digest.Valid() {
		return Tree{}, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(digest))
	}
	if t, err := s.Resolve(digest); err == nil {
		return t, nil
	} else if api.KindOf(err) != api.KindNotFound {
		return Tree{}, err
	}
	lock, err := storedir.MakeLocked(s.dir, aside)
	if err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	tmp := lock.Name()
	defer removeAll(tmp) // a no-op once renamed
	defer lock.Close()
	if err := lock.Chmod(0o755); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	var tree Tree
	has := restored
	err = s.cfg.Space.Guard(ctx, "layer "+string(digest), func(ctx context.Context) (err error) {
		if tree, has, err = make(ctx, tmp); err != nil {
			return err
		}
		tree.Image = nil
		s.pass("built")
		tree = s.pack(ctx, tmp, tree)
		return ctx.Err() // a copy that was interrupted is no layer
	})
	if err != nil {
		return Tree{}, err
	}
	s.pass("packed")
	final := filepath.Join(s.dir, string(digest))
	tree = tree.moved(tmp, final)
	tree.Digest = digest
	if err := writeTree(tmp, tree.moved(final, ".")); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	s.pass("recorded")
	if err := flush(lock, tree.Packed()); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: flush: %w", digest, err)
	}
	s.pass("flushed")
	if err := ctx.Err(); err != nil {
		return Tree{}, err
	}
	// RENAME_NOREPLACE so that a tree in use is never replaced below its users.
	err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, final, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return s.Resolve(digest)
	}
	if err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: rename into place: %w", digest, err)
	}
	s.pass("renamed")
	if err := storedir.Sync(s.dir); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: flush: %w", digest, err)
	}
	if s.cfg.Added != nil {
		s.cfg.Added()
	}
	tree, err = s.usable(tree, true)
	if err == nil && has != restored {
		s.save(tree, has)
	}
	return tree, err
}

// pass passes a point of Put.
func (s *Store) pass(point string) {
	if s.at != nil {
		s.at(point)
	}
}

// Resolve finds the tree of that digest and mounts it if it is packed; KindNotFound when it is
// not there, or was found corrupt and set aside. The first time, a packed tree is verified.
func (s *Store) Resolve(digest Digest) (Tree, error) {
	tree, err := s.read(digest)
	if err != nil {
		return Tree{}, err
	}
	return s.usable(tree, false)
}

// usable returns a tree with a root that can be used.
func (s *Store) usable(tree Tree, fresh bool) (Tree, error) {
	if !tree.Packed() {
		return tree, nil
	}
	t, err := s.mount(tree, fresh)
	switch {
	case errors.Is(err, errCorrupt):
		return Tree{}, notFound(tree.Digest, "it was corrupt")
	case errors.Is(err, fs.ErrNotExist):
		return Tree{}, notFound(tree.Digest, "it was removed")
	case err != nil && api.KindOf(err) == api.KindInternal:
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", tree.Digest, err)
	}
	return t, err
}

func notFound(d Digest, why string) error {
	if why != "" {
		why = ": " + why
	}
	return api.Errorf(api.KindNotFound, "layer %s is not in the store%s", d, why).
		WithHint("It is built when it is first needed; restart the daemon to build the host template.")
}

// read reads the record of a tree.
func (s *Store) read(digest Digest) (Tree, error) {
	if !digest.Valid() {
		return Tree{}, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(digest))
	}
	f, err := os.Open(filepath.Join(s.dir, string(digest), treeName))
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, notFound(digest, "")
	}
	if err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	defer f.Close()
	tree, err := readTree(f, filepath.Join(s.dir, string(digest)))
	if err == nil && tree.Digest != digest {
		err = fmt.Errorf("%w: it names %q", errCorrupt, string(tree.Digest))
	}
	if err == nil {
		return tree, nil
	}
	if st, serr := f.Stat(); serr == nil && errors.Is(err, errCorrupt) {
		s.setAside(digest, st, err)
		return Tree{}, notFound(digest, "it was corrupt")
	}
	return Tree{}, api.Errorf(api.KindInternal, "layer %s: tree.json: %w", digest, err)
}

// Has reports whether the tree is there and whole.
func (s *Store) Has(digest Digest) bool {
	_, err := s.read(digest)
	return err == nil
}

// OpenImage opens the EROFS image of a packed tree, which must be leased.
func (s *Store) OpenImage(t Tree) (*os.File, error) {
	return os.Open(filepath.Join(s.dir, string(t.Digest), imageName))
}

// List names the trees of the store, sorted.
func (s *Store) List() ([]Digest, error) {
	return storedir.List[Digest](what, s.dir)
}

// moved returns the tree with every path below from replaced by one below to.
func (t Tree) moved(from, to string) Tree {
	move := func(p string) string {
		if rest, ok := strings.CutPrefix(p, from+"/"); ok {
			return filepath.Join(to, rest)
		}
		if p == from {
			return to
		}
		return p
	}
	t.Root = move(t.Root)
	mounts := make([]Mount, len(t.Mounts))
	for i, m := range t.Mounts {
		lowers := make([]string, len(m.Lowers))
		for j, l := range m.Lowers {
			lowers[j] = move(l)
		}
		mounts[i] = Mount{Target: m.Target, Lowers: lowers}
	}
	t.Mounts = mounts
	return t
}

func writeTree(dir string, t Tree) error {
	b, err := json.MarshalIndent(t, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, treeName), b, 0o644)
}

// removeUntil is removeAll until ctx ends: it removes the files first.
func removeUntil(ctx context.Context, dir string) error {
	// What cannot be removed here is removed, or reported, below.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && !d.IsDir() {
			os.Remove(path)
		}
		return nil
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	return removeAll(dir)
}

// away is a name for what is set aside, which no other process gave.
func (s *Store) away(why string, d Digest) string {
	return filepath.Join(s.dir, aside+why+"-"+string(d)+"-"+rand.Text())
}

// removeAll removes a directory also where build left directories without the
// write bit.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Verified waits until this process has compared the image of a packed layer with its sum, once in its life. Resolve and
// Lease wait for at most [Config.VerifyWait]. KindNotFound if the layer is not there, or is corrupt and was set aside. A
// layer that is a directory has no sum.
func (s *Store) Verified(ctx context.Context, d Digest) error {
	if _, err := s.Resolve(d); err != nil {
		return err
	}
	s.mu.Lock()
	m := s.mounts[d]
	s.mu.Unlock()
	if m == nil {
		_, err := s.read(d) // not packed, or set aside just now
		return err
	}
	select {
	case <-m.checked:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(m.cause, errCorrupt) {
		return api.Errorf(api.KindNotFound, "layer %s is corrupt: %w", d, m.cause)
	}
	return nil
}
