package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/gvisorbuild"
)

// besideName is the file name of gVisor next to the hortus executable, which is what
// "go install" calls cmd/hortus-runsc.
const besideName = "hortus-runsc"

// runscBeside gives the path of the gVisor executable in the directory of the hortus
// executable; empty if there is none. Only root and the daemon's user may be able to
// write to the file and to the directories above it: otherwise the error is of
// KindUnsupported and says what to change.
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

// unpackTools is the function of that name for the gVisor executable that the
// configuration names, the embedded one, the one beside this program, or the one that was
// built for the data directory (package gvisorbuild). An unusable one of the last two is an error of KindUnsupported: nobody asked for it, so the daemon
// starts without gVisor.
func (s *System) unpackTools(guest *os.File, used map[string]bool) (toolset, error) {
	dir := s.dir.path("bin")
	if s.cfg.Runsc != "" {
		if err := static(guest); err != nil {
			return toolset{}, err
		}
	}
	if s.cfg.Runsc != "" || len(embedded.Runsc()) > 0 {
		return unpackTools(dir, guest, s.cfg.Runsc, used)
	}
	path, err := runscBeside(s.cfg.Executable)
	if err != nil {
		return toolset{}, err
	}
	if path == "" {
		// The data directory and what is in it are this user's alone.
		if info, err := os.Lstat(gvisorbuild.Path(dir)); err == nil && info.Mode().IsRegular() {
			path = gvisorbuild.Path(dir)
		}
	}
	if path != "" {
		if err := static(guest); err != nil {
			return toolset{}, err
		}
	}
	t, err := unpackTools(dir, guest, path, used)
	if api.KindOf(err) == api.KindInvalid {
		err = api.Errorf(api.KindUnsupported, "gVisor at %s is not used: it is no program built of cmd/hortus-runsc", path).
			WithHint("remove it, and build it again: hortus gvisor build")
	}
	return t, err
}
