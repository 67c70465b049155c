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

// heldMode is the mode of the memory of a kernel that others refer to.
const heldMode = 0o400

// readOnly returns a read-only descriptor of the memory of a kernel, which the kernel has sent. It is
// not trusted.
//
// A process could open what is behind a read-only descriptor again, for writing, if the mode of the
// file lets it: that of a memory file lets everybody at first. If root does this, the file becomes
// root's, because the IDs of its owner are those of another sandbox after this one has ended. Its
// kernel continues with the descriptor that it has.
func readOnly(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("its kernel sent something that is not a file")
	}
	// Files on a disk have no seals.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil {
		return nil, errors.New("its kernel sent a file that is not in memory")
	}
	if os.Geteuid() == 0 {
		if st.Uid == 0 && st.Mode&0o7777 != heldMode {
			return nil, errors.New("its kernel sent a file of the host's")
		}
		if err := unix.Fchown(fd, 0, 0); err != nil {
			return nil, fmt.Errorf("take the memory of the kernel: %w", err)
		}
	}
	if err := unix.Fchmod(fd, heldMode); err != nil {
		return nil, fmt.Errorf("protect the memory of the kernel: %w", err)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}
