package upper

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A saved file is the magic, followed by records: a type byte and its fields. Numbers are
// little-endian.
//
//	tree      name, meta       the following records are in it, until up
//	directory name, meta       the following records are in it, until up
//	up
//	file      name, meta, size, then extents (offset, length, data) until a length of 0
//	hard      name, text       the path of an earlier file of the tree
//	symlink   name, meta, text
//	fifo, socket  name, meta
//	whiteout  name
//	end       nothing follows
//
// A name is its length (1) and its bytes; a text is its length (2) and its bytes. Meta is mode
// (4), uid (4), gid (4), and the modification time in seconds (8) and nanoseconds (4).
const magic = "hortus files 1\n"

const (
	recTree     = 'T'
	recDir      = 'D'
	recOpaque   = 'O' // a directory that hides what lies below it
	recUp       = 'U'
	recFile     = 'F'
	recHard     = 'H'
	recSymlink  = 'S'
	recFifo     = 'P'
	recSocket   = 'K'
	recWhiteout = 'W'
	recEnd      = 'E'
)

const (
	metaSize = 24
	// maxText is the maximum length of a link's target or path, as in the kernel.
	maxText = 4095
	// maxDepth is the maximum nesting of directories, each of which needs a descriptor.
	maxDepth = 512
	maxName  = 255
)

// The attribute of an opaque directory, as overlays mounted with userxattr write it.
const opaqueMark = "user.overlay.opaque"

// meta is what every entry except a whiteout has.
type meta struct {
	mode, uid, gid uint32 // the mode without the kind
	sec            int64
	nsec           uint32
}

// RefusedError is why a tree cannot be saved as its guest made it.
type RefusedError struct{ Path, Why string }

func (e *RefusedError) Error() string { return fmt.Sprintf("%.200q: %s", e.Path, e.Why) }

// errBad is the error of a malformed saved file.
func errBad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// errDamaged is EBADMSG in a report of the stage.
var errDamaged = fmt.Errorf("the saved files are damaged or truncated: %w", unix.EBADMSG)

// goodName reports whether a name is valid for one entry of a directory.
func goodName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxName {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return false
		}
	}
	return true
}

// The trees of a sandbox.
const (
	Root      = "root"
	Workspace = "workspace"
)
