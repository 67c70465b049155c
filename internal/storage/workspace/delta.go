package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Delta makes a layer that shows the changes when it is stacked on base, whose
// layers are given the lowest first: files that are as a checkout would make them,
// owned by the sandbox's user, and whiteouts for what was deleted. A directory whose
// last file was deleted is gone too, as in a checkout. The digest is of base and of
// every path, mode and byte; a layer that is there already is not made again.
//
// Errors: KindInvalid for paths that are not clean, not relative, doubled, or below
// a path that is a file; KindUnsupported where the file system has no whiteouts; and
// what a Change's Open fails with.
func Delta(ctx context.Context, store *layer.Store, base []layer.Digest, changes []Change) (layer.Digest, error) {
	list, err := checkChanges(changes)
	if err != nil {
		return "", err
	}
	v, err := openView(store, base)
	if err != nil {
		return "", err
	}
	defer v.close()
	sum := sha256.New()
	fmt.Fprintf(sum, "delta 1\n%d\n", UserID())
	for _, d := range base {
		fmt.Fprintf(sum, "%s\n", d)
	}
	hashes := make([][]byte, len(list))
	for i, c := range list {
		if hashes[i], err = copyChange(ctx, io.Discard, c); err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%q %t %s %d %x\n", c.Path, c.Delete, c.Mode, c.Size, hashes[i])
	}
	digest := layer.Digest("sha256-" + hex.EncodeToString(sum.Sum(nil)))
	b := &builder{ctx: ctx, base: v.roots, list: list, hashes: hashes, empty: map[string]bool{}, deleted: map[string]bool{}, kept: map[string]bool{}}
	if _, err := store.Put(ctx, digest, b.build); err != nil {
		return "", err
	}
	return digest, nil
}

// checkChanges returns the changes sorted by path.
func checkChanges(changes []Change) ([]Change, error) {
	list := slices.Clone(changes)
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	isFile := map[string]bool{}
	for i, c := range list {
		bad := func(why string) error { return api.Errorf(api.KindInvalid, "change of %.200q: %s", c.Path, why) }
		switch {
		case c.Path == "" || path.IsAbs(c.Path) || path.Clean(c.Path) != c.Path || c.Path == "." || c.Path == ".." || strings.HasPrefix(c.Path, "../") || strings.ContainsRune(c.Path, 0):
			return nil, bad("its path is not a clean relative path")
		case badPath(c.Path, 512) != "":
			return nil, bad(badPath(c.Path, 512))
		case i > 0 && list[i-1].Path == c.Path:
			return nil, bad("it is listed twice")
		case c.Delete:
			continue
		case c.Open == nil || c.Size < 0 || c.Mode != Regular && c.Mode != Executable && c.Mode != Symlink:
			return nil, bad("it has no content or no mode")
		case c.Mode == Symlink && (c.Size == 0 || c.Size > maxTarget):
			return nil, bad("its target is empty or too long")
		}
		isFile[c.Path] = true
	}
	for _, c := range list {
		for p := path.Dir(c.Path); p != "."; p = path.Dir(p) {
			if !c.Delete && isFile[p] {
				return nil, api.Errorf(api.KindInvalid, "change of %.200q: %.200q is a file", c.Path, p)
			}
		}
	}
	return list, nil
}

// copyChange copies a change's content and gives its hash.
func copyChange(ctx context.Context, w io.Writer, c Change) ([]byte, error) {
	if c.Delete {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var sum hash.Hash = sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(f, c.Size+1))
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "read the changed %s: %w", c.Path, err)
	}
	if n != c.Size {
		return nil, api.Errorf(api.KindInvalid, "the changed %s does not have the announced %d bytes", c.Path, c.Size)
	}
	return sum.Sum(nil), nil
}

// builder writes the directory of a delta.
type builder struct {
	ctx     context.Context
	base    []int
	list    []Change
	hashes  [][]byte
	deleted map[string]bool
	kept    map[string]bool // directories that something is written to
	empty   map[string]bool // directories of base: whether all in them is deleted
}

func (b *builder) build(_ context.Context, dir string) (layer.Tree, error) {
	top := filepath.Join(dir, "root")
	if err := os.Mkdir(top, 0o755); err != nil {
		return layer.Tree{}, err
	}
	if err := os.Chmod(top, 0o755); err != nil {
		return layer.Tree{}, err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return layer.Tree{}, err
	}
	defer root.Close()
	for i, c := range b.list {
		if c.Delete {
			b.deleted[c.Path] = true
			continue
		}
		for p := path.Dir(c.Path); p != "."; p = path.Dir(p) {
			b.kept[p] = true
		}
		if err := b.write(root, c, b.hashes[i]); err != nil {
			return layer.Tree{}, err
		}
	}
	for _, c := range b.list {
		if !c.Delete {
			continue
		}
		if err := b.hide(root, c.Path); err != nil {
			return layer.Tree{}, err
		}
	}
	return layer.Tree{Root: top}, Own(top)
}

func (b *builder) write(root *os.Root, c Change, want []byte) error {
	if err := mkdirAll(root, path.Dir(c.Path)); err != nil {
		return err
	}
	var link strings.Builder
	var w io.Writer = &link
	if c.Mode != Symlink {
		mode := os.FileMode(0o644)
		if c.Mode == Executable {
			mode = 0o755
		}
		f, err := root.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Chmod(mode); err != nil {
			return err
		}
		w = f
	}
	got, err := copyChange(b.ctx, w, c)
	if err != nil {
		return err
	}
	if string(got) != string(want) {
		return api.Errorf(api.KindConflict, "the content of %s changed while it was read", c.Path)
	}
	if c.Mode == Symlink {
		return root.Symlink(link.String(), c.Path)
	}
	return nil
}

func mkdirAll(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := mkdirAll(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return root.Chmod(dir, 0o755)
}

// hide whites a deleted path out, or the highest directory above it in which nothing
// is left.
func (b *builder) hide(root *os.Root, p string) error {
	dirs := b.base
	var open [][]int
	defer func() {
		for _, o := range open {
			closeAll(o)
		}
	}()
	at := ""
	for name := range strings.SplitSeq(p, "/") {
		at = path.Join(at, name)
		f, err := look(dirs, name)
		if err != nil {
			return err
		}
		open = append(open, f.dirs)
		switch {
		case !f.file && len(f.dirs) == 0:
			return nil // it is not in base
		case f.file:
			if at != p {
				return nil
			}
			return whiteout(root, at)
		}
		gone, err := b.emptied(at, f.dirs)
		if err != nil {
			return err
		}
		if gone {
			return whiteout(root, at)
		}
		dirs = f.dirs
	}
	return api.Errorf(api.KindInvalid, "change of %.200q: it is a directory; only files are deleted", p)
}

// emptied reports whether the changes leave nothing in a directory of base.
func (b *builder) emptied(at string, dirs []int) (bool, error) {
	if b.kept[at] {
		return false, nil
	}
	if e, ok := b.empty[at]; ok {
		return e, nil
	}
	left := errors.New("it is not empty")
	err := files(b.ctx, dirs, at, 512, func(p, _ string, _ found) error {
		if b.deleted[p] {
			return nil
		}
		return left
	})
	if err != nil && err != left {
		return false, err
	}
	b.empty[at] = err == nil
	return b.empty[at], nil
}

// whiteout hides a path of the layers below. It is nothing where something of the
// delta is there already: a file hides a whole directory.
func whiteout(root *os.Root, p string) error {
	// Where a file of the delta is in the way, it hides all that was below.
	for q := path.Dir(p); q != "."; q = path.Dir(q) {
		if st, err := root.Lstat(q); err == nil && !st.IsDir() {
			return nil
		}
	}
	if err := mkdirAll(root, path.Dir(p)); err != nil {
		return err
	}
	d, err := root.Open(path.Dir(p))
	if err != nil {
		return err
	}
	defer d.Close()
	err = unix.Mknodat(int(d.Fd()), path.Base(p), unix.S_IFCHR, 0)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return api.Errorf(api.KindUnsupported, "create a whiteout for the deleted %s: %w", p, err).
			WithHint("put the data directory on a file system that supports whiteouts (Linux 5.8 or later with ext4, xfs or btrfs)")
	}
	return nil
}
