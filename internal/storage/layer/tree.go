package layer

import (
	"fmt"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/mount"
)

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
