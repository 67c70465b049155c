package layer

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/storedir"
)

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
//	<digest>/tree.json   the Tree
//	<digest>/...         the files that build wrote
//	new-*/               being written, or left by a process that died
//
// Several processes may use one directory at the same time.
type Store struct{ dir string }

// Open opens the store at dir, making it where it is missing, and removes what a
// process that is gone left half-written.
func Open(dir string) (*Store, error) {
	abs, err := storedir.Open(what, dir, removeAll, aside)
	if err != nil {
		return nil, err
	}
	return &Store{dir: abs}, nil
}

// Dir is where the store lives.
func (s *Store) Dir() string { return s.dir }

// Put makes the tree of that digest unless it is there. build writes files below
// dir, an empty directory with mode 0755 of its own, and returns the Tree; paths
// of the Tree that lie below dir are moved along when the tree is renamed into
// place. What build wrote is flushed before it becomes visible, so that a tree
// that is found is whole, also after a power failure.
//
// When several Puts of one digest run at the same time, each builds and the
// first one to finish wins; the others return the winner's tree.
func (s *Store) Put(ctx context.Context, digest Digest, build func(ctx context.Context, dir string) (Tree, error)) (Tree, error) {
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
	tree, err := build(ctx, tmp)
	if err != nil {
		return Tree{}, err
	}
	final := filepath.Join(s.dir, string(digest))
	tree = tree.moved(tmp, final)
	tree.Digest = digest
	if err := writeTree(tmp, tree.moved(final, ".")); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	if err := unix.Syncfs(int(lock.Fd())); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: flush: %w", digest, err)
	}
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
	if err := storedir.Sync(s.dir); err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: flush: %w", digest, err)
	}
	return tree, nil
}

// Resolve finds the tree of that digest; KindNotFound when it is not there.
func (s *Store) Resolve(digest Digest) (Tree, error) {
	if !digest.Valid() {
		return Tree{}, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(digest))
	}
	f, err := os.Open(filepath.Join(s.dir, string(digest), "tree.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, api.Errorf(api.KindNotFound, "layer %s is not in the store", digest).
			WithHint("It is built when it is first needed; restart the daemon to build the host template.")
	}
	if err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	defer f.Close()
	tree, err := readTree(f, filepath.Join(s.dir, string(digest)))
	if err != nil {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: tree.json: %w", digest, err)
	}
	if tree.Digest != digest {
		return Tree{}, api.Errorf(api.KindInternal, "layer %s: tree.json names %q", digest, string(tree.Digest))
	}
	return tree, nil
}

// Has reports whether the tree is there and whole.
func (s *Store) Has(digest Digest) bool {
	_, err := s.Resolve(digest)
	return err == nil
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
	return os.WriteFile(filepath.Join(dir, "tree.json"), b, 0o644)
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
