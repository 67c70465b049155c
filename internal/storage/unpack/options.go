package unpack

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Options of Apply. Zero limits take the defaults.
type Options struct {
	// Owners keeps the owners of the archive, which requires root. Otherwise every file
	// belongs to the calling user.
	Owners bool
	// MaxBytes is the maximum size of the archive and of its files together, uncompressed
	// (default 64 GiB).
	MaxBytes int64
	// MaxEntries is the maximum number of entries (default 2,000,000).
	MaxEntries int
	// MaxDepth is the maximum number of directories above an entry (default 128).
	MaxDepth int
}

func (o *Options) defaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 30
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 2_000_000
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = 128
	}
}

// Result is what an archive contained.
type Result struct {
	Entries int
	Bytes   int64 // of files
	// Skipped counts devices and pipes, Dropped attributes and setuid bits that were not
	// kept.
	Skipped, Dropped int
}

// maxPath is the maximum length of a path, in bytes: the kernel's, with space for what is
// above it.
const maxPath = 3 << 10

// limitReader fails when more than left bytes are read.
type limitReader struct {
	r    io.Reader
	left int64
	max  int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, refusef("the archive has more than %d bytes", l.max)
	}
	return n, err
}

// refusef is the error of an archive that is not accepted.
func refusef(format string, args ...any) error {
	return api.Errorf(api.KindInvalid, format, args...)
}

// failed adds the entry to a system error. A full disk is an error of its own kind.
func failed(what, name string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ENOSPC, unix.EDQUOT:
		return api.Errorf(api.KindExhausted, "%s %.200q: %w", what, name, err).WithHint("free space on the disk of the data directory, for example with hortus gc")
	case unix.ELOOP, unix.EXDEV, unix.ENOTDIR:
		return refusef("%s %.200q: its path leads through a link or a file: %w", what, name, err)
	case unix.ENAMETOOLONG:
		return refusef("%s %.200q: %w", what, name, err)
	}
	return fmt.Errorf("%s %.200q: %w", what, name, err)
}
