package upper

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A saved file is the magic and then records, each a byte that says what it is and
// what belongs to it. Numbers are little-endian.
//
//	tree      name, meta       what follows is in it, until up
//	directory name, meta       what follows is in it, until up
//	up
//	file      name, meta, size, then extents (offset, length, data) until a length of 0
//	hard      name, text       the path of an earlier file of the tree
//	symlink   name, meta, text
//	fifo, socket  name, meta
//	whiteout  name
//	end       nothing follows
//
// A name is a byte of length and so many bytes, a text two bytes and so many. Meta
// is mode (4), uid (4), gid (4), seconds (8) and nanoseconds (4) of the last change.
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
	// maxText bounds a link's target or path: the kernel's own bound.
	maxText = 4095
	// maxDepth bounds the nesting of directories, each of which takes a descriptor.
	maxDepth = 512
	maxName  = 255
)

// The mark of an opaque directory, as overlays that are mounted with userxattr
// write it.
const opaqueMark = "user.overlay.opaque"

// meta is what every entry has but a whiteout.
type meta struct {
	mode, uid, gid uint32 // the mode without the kind
	sec            int64
	nsec           uint32
}

// RefusedError is a tree that cannot be saved as it is, with the reason: its guest
// made it so.
type RefusedError struct{ Path, Why string }

func (e *RefusedError) Error() string { return fmt.Sprintf("%.200q: %s", e.Path, e.Why) }

// errBad is a saved file that says what no saved file says.
func errBad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// errDamaged comes through a report of the stage's as EBADMSG.
var errDamaged = fmt.Errorf("the saved files are damaged or cut short: %w", unix.EBADMSG)

// Damaged says whether an error means that a saved file is no such file, or not
// whole.
func Damaged(err error) bool { return errors.Is(err, unix.EBADMSG) }

// goodName says whether a name is that of one entry of a directory.
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
