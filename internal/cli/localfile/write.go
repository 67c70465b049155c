package localfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

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
