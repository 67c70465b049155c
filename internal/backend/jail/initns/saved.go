package initns

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/upper"
)

// SavedStep is the name of the step that restores saved files.
const SavedStep = "restore the saved files"

// savedFiles is the initial content of a sandbox's upper layers; nil for a fresh start.
type savedFiles struct {
	file *os.File
	r    *upper.Reader
}

// openSaved begins to read Spec.Saved.
func openSaved(s *Spec, fd func(int) int) (*savedFiles, error) {
	if s.Saved < 0 {
		return nil, nil
	}
	f := os.NewFile(uintptr(fd(s.Saved)), "saved")
	if f == nil {
		return nil, at(SavedStep, unix.EBADF)
	}
	r, err := upper.NewReader(f, func(fd int, name string, uid, gid uint32) error {
		if !s.Switch {
			if int(uid) != s.UID || int(gid) != s.GID {
				return fmt.Errorf("%w: a file belongs to %d:%d inside, but the only mapped id is %d", unix.EBADMSG, uid, gid, s.UID)
			}
			return nil
		}
		flags := unix.AT_SYMLINK_NOFOLLOW
		if name == "" {
			flags |= unix.AT_EMPTY_PATH
		}
		return unix.Fchownat(fd, name, int(uid), int(gid), flags)
	})
	if err != nil {
		f.Close()
		return nil, at(SavedStep, err)
	}
	return &savedFiles{f, r}, nil
}

// tree fills an upper layer.
func (s *savedFiles) tree(name, path string) error {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = s.r.Tree(name, dir)
		unix.Close(dir)
	}
	return at(SavedStep, err)
}

// end checks that everything was restored.
func (s *savedFiles) end() error {
	if s == nil {
		return nil
	}
	return at(SavedStep, s.r.End())
}

func (s *savedFiles) close() {
	if s != nil {
		s.file.Close()
	}
}
