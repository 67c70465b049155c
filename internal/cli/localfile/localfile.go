package localfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sparseBlock is the unit in which zeros are left out of a file, in bytes: that of
// most file systems' allocation.
const sparseBlock = 4 << 10

// writeSparse copies r into an empty file. Blocks of zeros become holes: a sparse file
// takes no more of this disk than it has content.
func writeSparse(f *os.File, r io.Reader) error {
	buf, zeros := make([]byte, 64*sparseBlock), make([]byte, sparseBlock)
	var at int64
	for {
		n, err := fill(r, buf)
		if werr := writeBlocks(f, buf[:n], zeros, at); werr != nil {
			return werr
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return f.Truncate(at) // it may end with a hole
		case err != nil:
			return err
		}
	}
}

// fill reads until a buffer is full or there is an error. Unlike io.ReadFull it tells
// the end from a cut.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// writeBlocks writes the blocks of a buffer that are not zeros, runs of them at once.
func writeBlocks(f *os.File, buf, zeros []byte, at int64) error {
	for len(buf) > 0 {
		n := 0
		for n < len(buf) {
			block := buf[n:min(n+sparseBlock, len(buf))]
			if bytes.Equal(block, zeros[:len(block)]) {
				break
			}
			n += len(block)
		}
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
		} else {
			n = min(sparseBlock, len(buf))
		}
		buf, at = buf[n:], at+int64(n)
	}
	return nil
}

// ValidPath reports whether a path from elsewhere lies inside a directory and can be
// shown on a terminal.
func ValidPath(name string) bool {
	return len(name) <= 4096 && name != "." && filepath.IsLocal(name) && utf8.ValidString(name) && !strings.ContainsFunc(name, misleads)
}

// NameProblem returns why a name that a sandbox gave cannot be that of a file here; "" if it can.
func NameProblem(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "the name is not valid UTF-8"
	case strings.ContainsFunc(name, misleads):
		return "the name has control characters"
	case !ValidPath(name) || strings.ContainsAny(name, `/\`):
		return "the name cannot be kept here"
	}
	return ""
}

// misleads reports whether a character controls a terminal or the direction of text.
// The joiners and marks inside words of some languages do not.
func misleads(r rune) bool {
	return unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// ErrEscapes refuses a name.
var ErrEscapes = errors.New("the name leads out of the directory, or has control characters")

// Write writes a file below a directory that nothing leads out of. The
// name and the content come from a sandbox.
func Write(root *os.Root, name string, mode os.FileMode, r io.Reader) error {
	if !ValidPath(name) {
		return fmt.Errorf("%.100q: %w", name, ErrEscapes)
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if err := root.MkdirAll(name[:i], 0o755); err != nil {
			return err
		}
	}
	// What is there is replaced, not written through: it may be a link.
	if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(writeSparse(f, r), f.Close())
}
