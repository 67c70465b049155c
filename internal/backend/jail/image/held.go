package image

import (
	"errors"
	"fmt"
	"os"
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
