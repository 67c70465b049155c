package layer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/mount"
)

// readTree reads and checks the tree.json of a directory. What lies in the directory is
// named from there, so that the store can be moved. The file is the host's own, but a
// disk can fail: what does not make sense is refused.
func readTree(r io.Reader, dir string) (Tree, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTree+1))
	if err != nil {
		return Tree{}, err
	}
	t, err := parseTree(b, dir)
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return t, nil
}

// parseTree checks the text of a tree.json.
func parseTree(b []byte, dir string) (t Tree, err error) {
	if len(b) > maxTree {
		return Tree{}, fmt.Errorf("longer than %d bytes", maxTree)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return Tree{}, err
	}
	if i := t.Image; i != nil && (i.Bytes <= 0 || i.Sum == "" || len(t.Mounts) > 0) {
		return Tree{}, fmt.Errorf("its image of %d bytes does not make sense", i.Bytes)
	}
	if !t.Digest.Valid() {
		return Tree{}, fmt.Errorf("digest %q is malformed", string(t.Digest))
	}
	if t.Root, err = place(dir, t.Root); err != nil {
		return Tree{}, fmt.Errorf("root %w", err)
	}
	for _, m := range t.Mounts {
		if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
			return Tree{}, fmt.Errorf("mount target %q is not a clean absolute path below the root", m.Target)
		}
		if len(m.Lowers) == 0 {
			return Tree{}, fmt.Errorf("mount %s has no source", m.Target)
		}
		for i, l := range m.Lowers {
			if m.Lowers[i], err = place(dir, l); err != nil {
				return Tree{}, fmt.Errorf("mount %s: lower %w", m.Target, err)
			}
		}
	}
	return t, nil
}

// place returns a path of a tree, which is one of this machine or lies in dir.
func place(dir, p string) (string, error) {
	switch {
	case p == "" || path.Clean(p) != p:
	case path.IsAbs(p):
		return p, nil
	case filepath.IsLocal(p):
		return filepath.Join(dir, p), nil
	}
	return "", fmt.Errorf("%q is not a clean path of this machine or in the layer", p)
}

const (
	// sumChunk is the size of the parts of a file that are hashed side by side, in bytes.
	sumChunk = 4 << 20
	// sumWorkers is the maximum number of parts that are hashed at a time.
	sumWorkers = 4
	// sumPrefix names the form of a sum.
	sumPrefix = "sha256-4m-"
)

// sum returns the hash of a file of that size: SHA-256 of its size and of the SHA-256 of each
// part of 4 MiB.
func sum(ctx context.Context, f *os.File, size int64) (string, error) {
	parts := (size + sumChunk - 1) / sumChunk
	hashes := make([][sha256.Size]byte, parts)
	errs := make([]error, min(sumWorkers, runtime.GOMAXPROCS(0)))
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			buf := make([]byte, min(sumChunk, size))
			for {
				n := next.Add(1) - 1
				if n >= parts || errs[i] != nil {
					return
				}
				if errs[i] = ctx.Err(); errs[i] != nil {
					return
				}
				part := buf[:min(sumChunk, size-n*sumChunk)]
				if _, err := f.ReadAt(part, n*sumChunk); err != nil {
					if errors.Is(err, io.EOF) {
						err = io.ErrUnexpectedEOF
					}
					errs[i] = err
					return
				}
				hashes[n] = sha256.Sum256(part)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	all := sha256.New()
	_ = binary.Write(all, binary.LittleEndian, size)
	for _, h := range hashes {
		all.Write(h[:])
	}
	return sumPrefix + hex.EncodeToString(all.Sum(nil)), nil
}

// Digest names a tree: "host-" or "sha256-" and 64 lower-case hex digits.
type Digest string

// Tree is how a layer appears on this machine. It is data for a backend: the
// host made every path in it, none came from a guest or a client.
type Tree struct {
	Digest Digest `json:"digest"`
	// Root is a directory that becomes the lower layer of the sandbox's root. For a
	// packed tree it is a path of this process alone, valid while the tree is leased.
	Root string `json:"root"`
	// Mounts are further read-only trees, in the order of mounting. Their
	// targets exist as directories in Root.
	Mounts []Mount `json:"mounts,omitempty"`
	// Path is the PATH of commands in the sandbox.
	Path string `json:"path"`
	// Image is the packed tree; nil if Root is a plain directory. The store sets it.
	Image *Image `json:"image,omitempty"`

	mounted *mount.Image
}

// Mount shows host directories, stacked, read-only, at one place.
type Mount struct {
	// Target is an absolute path inside the sandbox.
	Target string `json:"target"`
	// Lowers are host directories, the top one first. Where there is more than
	// one they are stacked by an overlay; a whiteout in an upper one hides what
	// lies beneath.
	Lowers []string `json:"lowers"`
}

// Image describes the EROFS image of a packed tree.
type Image struct {
	// Bytes is the size of the image, Files that of its files, in bytes. Entries are its
	// files and directories.
	Bytes   int64 `json:"bytes"`
	Files   int64 `json:"files"`
	Entries int   `json:"entries"`
	// Sum is the hash of the image: see sum.
	Sum string `json:"sum"`
}

// Packed reports whether Root lies in a mounted image.
func (t Tree) Packed() bool { return t.Image != nil }

// CloneMount returns a detached mount of Root, which the caller closes. It keeps working when
// the lease ends.
func (t Tree) CloneMount() (int, error) {
	if t.mounted != nil {
		return t.mounted.Clone()
	}
	m, err := unix.OpenTree(unix.AT_FDCWD, t.Root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s: %w", t.Root, err)
	}
	return m, nil
}
