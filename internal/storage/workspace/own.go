package workspace

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// user is the sandbox's identity user.
const user = 1000

// rangeEnd is the end of the ids that sandboxes of root's are given; see the
// container backend.
const rangeBase, rangeEnd = 0x60000000, 0x80000000

// UserID is the id on the disk of what belongs to a sandbox's user: 1000 where each
// sandbox has a range of ids, else the one id that is mapped, which is ours.
func UserID() int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil && !mapsRanges(string(b)) {
		return 0
	}
	return user
}

func mapsRanges(uidMap string) bool {
	for line := range strings.Lines(uidMap) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside <= rangeBase && rangeEnd <= inside+count {
			return true
		}
	}
	return false
}

// Own transfers a directory and everything below it to the sandbox's user, as a layer
// of a workspace has to be: anyone who builds one calls it at the end. Links are not
// followed. It does nothing where the files are the user's already, because only
// one id is mapped.
func Own(dir string) error {
	id := UserID()
	if os.Geteuid() != 0 || id == 0 {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer unix.Close(fd)
		err = own(fd, id, 0)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "change the owner of %s to the sandbox's user: %w", dir, err)
	}
	return nil
}

// ownDepth bounds the descriptors that Own holds.
const ownDepth = 1024

func own(dir, id, depth int) error {
	if depth > ownDepth {
		return errDeep
	}
	if err := unix.Fchown(dir, id, id); err != nil {
		return err
	}
	return beneath.Names(dir, func(name string) error {
		st, err := beneath.Stat(dir, name)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.Fchownat(dir, name, id, id, unix.AT_SYMLINK_NOFOLLOW)
		}
		sub, err := beneath.OpenDir(dir, name)
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		return own(sub, id, depth+1)
	})
}
