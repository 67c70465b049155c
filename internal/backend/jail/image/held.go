package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Held are files that an image refers to and that are in the memory of a running sandbox, by
// their names. The image can be restored as long as the caller has them open.
type Held map[string]*os.File

// Close closes them.
func (h Held) Close() {
	for _, f := range h {
		f.Close()
	}
}

// holderSuffix ends the name of a file, in the directory with the bases of a sandbox, for a base
// that is in the memory of another sandbox, whose ID is the content.
const holderSuffix = ".holder"

// holderFile is the name of that file.
func holderFile(name string) string { return "base-" + name + holderSuffix }

// Holders returns which sandboxes hold bases for the sandbox that owns a directory of bases, by
// the names of the bases.
func Holders(dir string) (map[string]api.SandboxID, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]api.SandboxID{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), "base-"), holderSuffix)
		if !ok || !validBase.MatchString(name) {
			continue
		}
		b, err := readSmall(dir, e.Name())
		if err != nil {
			return nil, err
		}
		if id := api.SandboxID(b); id.Valid() {
			out[name] = id
		}
	}
	return out, nil
}

// frozenSuffix ends the name of an empty file, in the directory with the bases of a sandbox, for
// memory of its own that it holds for others.
const frozenSuffix = ".frozen"

// NoteFrozen notes that the sandbox that owns a directory of bases holds memory under a name. It
// makes the directory if there is none.
func NoteFrozen(dir, name string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return writeNew(dir, "base-"+name+frozenSuffix, nil)
}

// ForgetFrozen removes that note.
func ForgetFrozen(dir, name string) error {
	err := os.Remove(filepath.Join(dir, "base-"+name+frozenSuffix))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Frozen returns the names under which the sandbox that owns a directory of bases holds memory, or
// was about to hold some.
func Frozen(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), "base-"), frozenSuffix)
		if ok && validBase.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// readOnly returns a read-only descriptor of a regular file that a kernel has sent, which is not
// trusted.
func readOnly(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("its kernel sent something that is not a file")
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}
