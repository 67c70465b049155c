package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// Files with the names and ids of the machine.
const (
	hostnameFile  = "/etc/hostname"
	hostsFile     = "/etc/hosts"
	machineIDFile = "/etc/machine-id"
)

// maxHosts is the maximum size of a hosts file that Rename keeps, in bytes.
const maxHosts = 64 << 10

// Rename writes the names and ids of a new self, except for the kernel's host name. old is
// the previous host name. The root of commands must be mounted at [birth.Groups].
func Rename(old string, self *birth.Self) error {
	if err := writeNames(old, self); err != nil {
		return err
	}
	return replaceBootID(birth.Groups, self.Seed)
}

// writeNames writes the files with the names of a new self.
func writeNames(old string, self *birth.Self) error {
	// First: programs run already, and may look at it before each use of a random number.
	if err := writeFile(birth.File{Path: birth.GenerationFile, Data: derivedID("generation", self.Seed) + "\n"}); err != nil {
		return err
	}
	hosts, err := readHosts()
	if err != nil {
		return err
	}
	for _, f := range append(birth.RunFiles(self.Sandbox, self.Template), []birth.File{
		{Path: hostnameFile, Data: self.Hostname + "\n"},
		{Path: hostsFile, Data: string(replaceHost(hosts, old, self.Hostname))},
		{Path: machineIDFile, Data: derivedID("machine-id", self.Seed) + "\n"},
	}...) {
		if err := writeFile(f); err != nil {
			return err
		}
	}
	return nil
}

// derivedID derives an id of 32 hexadecimal digits.
func derivedID(of string, seed []byte) string {
	sum := sha256.Sum256(append([]byte(of+"\x00"), seed...))
	return hex.EncodeToString(sum[:16])
}

// bootIDFile is mounted for commands over the kernel's boot ID file, which would show the id
// of the saved boot.
const bootIDFile = "/run/boot_id"

// replaceBootID replaces the boot ID that commands see. Their root is mounted at root.
func replaceBootID(root string, seed []byte) error {
	if err := writeFile(birth.File{Path: bootIDFile, Data: bootID(seed) + "\n"}); err != nil {
		return err
	}
	shown := root + "/proc/sys/kernel/random/boot_id"
	// Remove the mount of an earlier self, if there is one.
	if err := unix.Unmount(shown, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
		return &os.PathError{Op: "unmount", Path: shown, Err: err}
	}
	if err := unix.Mount(bootIDFile, shown, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind " + bootIDFile + " to", Path: shown, Err: err}
	}
	return nil
}

// bootID derives the id of a boot, in the form of a random UUID.
func bootID(seed []byte) string {
	b := sha256.Sum256(append([]byte("boot_id\x00"), seed...))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// readHosts reads the hosts file, which users may have changed. A file that is not regular
// or has more than maxHosts bytes counts as empty.
func readHosts() ([]byte, error) {
	fd, err := unix.Open(hostsFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: hostsFile, Err: err}
	}
	f := os.NewFile(uintptr(fd), hostsFile)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxHosts {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxHosts))
}

// replaceHost replaces a host name wherever it is a whole word of an entry.
func replaceHost(hosts []byte, old, now string) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(string(hosts)) {
		entry, comment := line, ""
		if i := strings.IndexByte(line, '#'); i >= 0 {
			entry, comment = line[:i], line[i:]
		}
		for entry != "" {
			n := strings.IndexAny(entry, " \t\r\n")
			switch {
			case n == 0:
				out.WriteByte(entry[0])
				entry = entry[1:]
				continue
			case n < 0:
				n = len(entry)
			}
			word := entry[:n]
			if word == old {
				word = now
			}
			out.WriteString(word)
			entry = entry[n:]
		}
		out.WriteString(comment)
	}
	return out.Bytes()
}

// Prepare makes the directories of users and the files of root. Without a kernel of the
// guest's own, the stage before the guest makes them.
func Prepare(cfg *birth.Config) error {
	for _, d := range cfg.Own {
		if err := makeDir(d); err != nil {
			return err
		}
	}
	for _, f := range cfg.Files {
		if err := writeFile(f); err != nil {
			return err
		}
	}
	if err := os.Remove(birth.Placeholder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// makeParents makes the missing parents of a path, owned by root.
func makeParents(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeParents(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Lchown(dir, 0, 0)
}

func makeDir(d birth.Dir) error {
	if !filepath.IsAbs(d.Path) {
		return fmt.Errorf("directory %q: the path is not absolute", d.Path)
	}
	if err := makeParents(d.Path); err != nil {
		return err
	}
	if err := os.Mkdir(d.Path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	fd, err := unix.Open(d.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: d.Path, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, d.UID, d.GID); err != nil {
		return &os.PathError{Op: "chown", Path: d.Path, Err: err}
	}
	// After chown, which clears set-id bits.
	if err := unix.Fchmod(fd, d.Mode); err != nil {
		return &os.PathError{Op: "chmod", Path: d.Path, Err: err}
	}
	return nil
}

// writeFile replaces whatever is at the path, unless it is a directory.
func writeFile(f birth.File) error {
	if !filepath.IsAbs(f.Path) {
		return fmt.Errorf("file %q: the path is not absolute", f.Path)
	}
	if err := makeParents(f.Path); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.Path), ".hortus-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename
	defer tmp.Close()
	if _, err := tmp.WriteString(f.Data); err != nil {
		return err
	}
	if err := tmp.Chown(0, 0); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.Path)
}
