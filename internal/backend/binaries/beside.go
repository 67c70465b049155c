package binaries

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"hortus.dev/api"
)

// besideName is the file name of runsc next to the hortus executable. "go install" gives
// cmd/hortus-runsc this name.
const besideName = "hortus-runsc"

// runscBeside returns the path of runsc in the directory of the hortus executable, or "" if
// there is none. The error is KindUnsupported, and says what to change, unless only root
// and the daemon's user can write to the file and to the directories above it.
func runscBeside(executable string) (string, error) {
	if executable == "" {
		return "", nil
	}
	path := filepath.Join(filepath.Dir(executable), besideName)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	untrusted := func(reason, hint string) (string, error) {
		return "", api.Errorf(api.KindUnsupported, "gVisor at %s is not used: %s", path, reason).WithHint("%s", hint)
	}
	if err != nil {
		return untrusted(err.Error(), "make it readable, or set HORTUS_RUNSC")
	}
	if !info.Mode().IsRegular() {
		return untrusted("it is not a regular file", "install it there as a file, or set HORTUS_RUNSC")
	}
	for at := path; ; at = filepath.Dir(at) {
		if at != path {
			if info, err = os.Stat(at); err != nil {
				return untrusted(err.Error(), "set HORTUS_RUNSC")
			}
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return untrusted(at+" is owned by another user", "chown it to root or to the daemon's user, or set HORTUS_RUNSC")
		}
		// In a sticky directory such as /tmp only its owner can replace an entry.
		if info.Mode()&0o022 != 0 && (at == path || info.Mode()&fs.ModeSticky == 0) {
			return untrusted("others can write to "+at, "chmod go-w "+at+", or set HORTUS_RUNSC")
		}
		if at == filepath.Dir(at) {
			return path, nil
		}
	}
}
