package localfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/internal/platform/sparse"
)

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
	return errors.Join(f.Chmod(mode), sparse.Copy(f, r), f.Close()) // whatever the umask is
}
