package binaries

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/gvisorbuild"
)

// Config is where runsc comes from.
type Config struct {
	// Dir is the directory that executables are unpacked into.
	Dir string
	// Runsc is the path of a runsc executable; empty means the embedded one or, if none
	// is embedded, the one beside Executable or built in Dir.
	Runsc string
	// Executable is the path of the running program; empty means that no directory is
	// searched.
	Executable string
	// InUse holds the names of unpacked directories that running sandboxes use.
	InUse map[string]bool
}

// Toolset is an unpacked directory of executables for gVisor sandboxes.
type Toolset struct {
	Dir            string
	Version, Guest string
}

// Unpack puts the executables of gVisor sandboxes into a directory of their own below
// cfg.Dir, where all sandboxes map the same files and share their memory. The directory is
// named by its contents, is created under a temporary name and renamed, and stays for the
// next daemon. Directories of other builds are removed unless cfg.InUse names them.
//
// Errors: KindUnsupported if there is no usable runsc, KindInvalid if cfg.Runsc names
// something else.
func Unpack(cfg Config, guest *os.File) (Toolset, error) {
	path, named := cfg.Runsc, cfg.Runsc != "" || embedded.Runsc() != nil
	if !named {
		var err error
		if path, err = runscBeside(cfg.Executable); err != nil {
			return Toolset{}, err
		}
		// Only this user can write to the data directory.
		if built := gvisorbuild.Path(cfg.Dir); path == "" {
			if info, err := os.Lstat(built); err == nil && info.Mode().IsRegular() {
				path = built
			}
		}
	}
	if path != "" {
		if err := Static(guest); err != nil {
			return Toolset{}, err
		}
	}
	t, err := unpackRunsc(cfg.Dir, guest, path, cfg.InUse)
	if !named && api.KindOf(err) == api.KindInvalid {
		// Nobody configured this file, so the daemon starts without gVisor.
		err = api.Errorf(api.KindUnsupported, "gVisor at %s is not used: it was not built from cmd/hortus-runsc", path).
			WithHint("remove it, and build it again: hortus gvisor build")
	}
	return t, err
}

// unpackRunsc is Unpack with the file at path, or the embedded one if path is empty.
func unpackRunsc(dir string, guest *os.File, path string, inUse map[string]bool) (Toolset, error) {
	var t Toolset
	if path == "" && embedded.Runsc() == nil {
		_, _, err := openRunsc("")
		return t, err
	}
	var err error
	if t.Guest, err = digest(guest); err != nil {
		return t, api.Errorf(api.KindInternal, "read the guest: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	var runsc *os.File
	var sum string
	if path != "" {
		if runsc, t.Version, err = openRunsc(path); err != nil {
			return t, err
		}
		defer runsc.Close()
		sum, err = digest(runsc)
	} else {
		t.Version, sum = embedded.Runsc().GVisor, embedded.Runsc().SHA256
	}
	if err != nil {
		return t, api.Errorf(api.KindInternal, "read runsc: %w", err)
	}
	name := "gvisor-" + sum[:16] + "-" + t.Guest[:16]
	t.Dir = filepath.Join(dir, name)
	// A checkpoint can only be restored by the executable that wrote it, so the version
	// includes its digest.
	t.Version += " " + sum[:12]
	if complete(t.Dir) {
		return t, nil
	}
	if runsc == nil {
		if runsc, _, err = openRunsc(""); err != nil {
			return t, err
		}
		defer runsc.Close()
	}
	return t, unpack(dir, name, runsc, guest, inUse)
}

// complete reports whether a directory has both executables and belongs to this user, with
// the modes that unpack gave.
func complete(dir string) bool {
	for p, mode := range map[string]fs.FileMode{
		"": fs.ModeDir | 0o755, keeper.GuestDir: fs.ModeDir | 0o755,
		gvisor.RunscName: 0o555, filepath.Join(keeper.GuestDir, gvisor.GuestName): 0o555,
	} {
		fi, err := os.Lstat(filepath.Join(dir, p))
		if err != nil || fi.Mode() != mode {
			return false
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			return false
		}
	}
	return true
}

// unpack writes both executables to the directory name below dir.
func unpack(dir, name string, runsc, guest *os.File, inUse map[string]bool) (err error) {
	old, err := os.ReadDir(dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	for _, e := range old {
		if strings.HasPrefix(e.Name(), "gvisor-") && (!inUse[e.Name()] || e.Name() == name) || strings.HasPrefix(e.Name(), "new-") {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	fresh, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(fresh)
			err = api.Errorf(api.KindInternal, "unpack gVisor: %w", err)
		}
	}()
	inside := filepath.Join(fresh, keeper.GuestDir)
	if err := os.Mkdir(inside, 0o700); err != nil {
		return err
	}
	for path, src := range map[string]*os.File{filepath.Join(fresh, gvisor.RunscName): runsc, filepath.Join(inside, gvisor.GuestName): guest} {
		dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
		if err != nil {
			return err
		}
		_, err = io.Copy(dst, io.NewSectionReader(src, 0, 1<<40))
		if err == nil {
			err = dst.Sync()
		}
		if err == nil {
			err = dst.Chmod(0o555)
		}
		if err = errors.Join(err, dst.Close()); err != nil {
			return err
		}
	}
	for _, d := range []string{inside, fresh} {
		if err := os.Chmod(d, 0o755); err != nil { // the sandboxes' user ids read it
			return err
		}
	}
	return os.Rename(fresh, filepath.Join(dir, name))
}

func digest(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<40)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

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

// Guest opens the executable that sandboxes run as their guest: the small one that a
// release embeds, the one that was built in dir for this build, or this executable, which
// can be the guest too.
//
// The file is in sealed memory: neither a sandbox that runs it nor a process on the host
// can change what the next sandbox starts from, and it outlives the temporary directory
// that `go run` executes from.
func Guest(dir string) (*os.File, error) {
	if b := embedded.Guest(); len(b) > 0 {
		return sealed("hortus-guest", bytes.NewReader(b))
	}
	if f, err := os.OpenFile(gvisorbuild.GuestPath(dir), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		return sealed("hortus-guest", io.LimitReader(f, maxRunsc))
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open this executable: %w", err)
	}
	defer self.Close()
	return sealed("hortus", self)
}

// Static checks that a guest needs no other file to run: a gVisor sandbox starts with an
// empty file system, and a service's has files of its own. The error is KindUnsupported.
func Static(guest *os.File) error {
	f, err := elf.NewFile(guest)
	if err != nil {
		return api.Errorf(api.KindInternal, "read the guest: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return api.Errorf(api.KindUnsupported, "this hortus was linked with the C library, so it cannot be the guest of sandboxes with other files").
				WithHint("build gVisor once, which takes a few minutes: hortus gvisor build; or build hortus with CGO_ENABLED=0")
		}
	}
	return nil
}

// sealed copies r into an executable file in sealed memory.
func sealed(name string, r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // kernels before 6.3 do not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "allocate memory for the guest: %w", err)
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if err == nil {
		err = birth.Seal(f)
	}
	if err != nil {
		f.Close()
		return nil, api.Errorf(api.KindInternal, "seal the guest: %w", err)
	}
	return f, nil
}

// maxRunsc is the maximum size in bytes of an executable that is copied into memory. The
// embedded runsc has about 36 million.
const maxRunsc = 1 << 30

// openRunsc opens the runsc executable in sealed memory, and returns its gVisor version:
// the file at path or, if path is empty, the embedded one. It copies tens of megabytes,
// which takes tens of milliseconds, and some more where they are compressed.
//
// Errors: KindUnsupported if nothing is embedded, KindInvalid if the file cannot be read
// or contains no gVisor.
func openRunsc(path string) (*os.File, string, error) {
	if path != "" {
		return runscFile(path)
	}
	p := embedded.Runsc()
	if p == nil {
		return nil, "", api.Errorf(api.KindUnsupported, "this binary does not include gVisor").
			WithHint("build it once, which takes a few minutes: hortus gvisor build; or use a release or make build; or set HORTUS_RUNSC")
	}
	r, err := p.Open()
	if err != nil {
		return nil, "", api.Errorf(api.KindInternal, "read the embedded gVisor: %w", err)
	}
	defer r.Close()
	f, err := sealed("hortus-runsc", r)
	return f, p.GVisor, err
}

func runscFile(path string) (*os.File, string, error) {
	bad := func(err error) error {
		return api.Errorf(api.KindInvalid, "HORTUS_RUNSC (daemon.runsc): %w", err).
			WithHint("set it to an executable built from cmd/hortus-runsc, or unset it")
	}
	src, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, "", bad(err)
	}
	defer src.Close()
	switch info, err := src.Stat(); {
	case err != nil:
		return nil, "", bad(err)
	case !info.Mode().IsRegular():
		return nil, "", bad(errors.New(path + " is not a file"))
	case info.Size() > maxRunsc:
		return nil, "", bad(errors.New(path + " is too large"))
	}
	f, err := sealed("hortus-runsc", io.LimitReader(src, maxRunsc))
	if err != nil {
		return nil, "", err
	}
	// Of the copy: the file may change.
	v := embedded.GVisor(f)
	if v == "" {
		f.Close()
		return nil, "", bad(errors.New(path + " is not a Go program that includes gVisor"))
	}
	return f, v, nil
}
