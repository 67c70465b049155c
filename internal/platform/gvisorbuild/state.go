//go:build linux

package gvisorbuild

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/version"
)

// Names in Config.Dir.
const (
	Name       = "hortus-runsc"
	guestName  = "hortus-guest"
	noteName   = Name + ".of"
	failedName = Name + ".failed"
	logName    = Name + ".log"
	lockName   = Name + ".lock"
)

// Path is the path of gVisor's executable in a directory.
func Path(dir string) string { return filepath.Join(dir, Name) }

// GuestPath is the path of the guest's, for this build of hortus alone: host and guest
// speak a protocol of their own.
func GuestPath(dir string) string {
	return filepath.Join(dir, guestName+"-"+version.Describe().Build)
}

// built reports whether everything is there that is made of a source with that key.
func (b *Builder) built(sum string) bool {
	note, err := os.ReadFile(b.in(noteName))
	return err == nil && string(note) == sum && !slices.ContainsFunc([]string{Path(b.cfg.Dir), GuestPath(b.cfg.Dir)}, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// State looks at the files. A source that cannot be read is Missing.
func (b *Builder) State() State {
	if f, err := os.Open(b.in(lockName)); err == nil {
		defer f.Close()
		if lock(f, unix.LOCK_SH|unix.LOCK_NB) == errBusy {
			st := State{Phase: Building}
			if info, err := f.Stat(); err == nil {
				st.Since = info.ModTime()
			}
			return st
		}
	}
	sum, err := key(b.cfg.Source)
	if err != nil {
		return State{Phase: Missing}
	}
	if b.built(sum) {
		return State{Phase: Built}
	}
	if failed, err := os.ReadFile(b.in(failedName)); err == nil {
		if of, reason, ok := strings.Cut(string(failed), "\n"); ok && of == sum {
			return State{Phase: Failed, Reason: reason}
		}
	}
	return State{Phase: Missing}
}

// errBusy reports that another process holds a lock.
const errBusy = unix.EWOULDBLOCK

// lock takes a lock of a file, until the file is closed.
func lock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func (b *Builder) in(name string) string { return filepath.Join(b.cfg.Dir, name) }

// failed notes why a build failed, for State.
func (b *Builder) failed(sum string, why error) error {
	err := api.AsError(why)
	if werr := os.WriteFile(b.in(failedName), []byte(sum+"\n"+err.Error()), 0o600); werr != nil {
		return api.Errorf(err.Kind, "%s; and the result could not be stored: %w", err, werr)
	}
	return why
}
