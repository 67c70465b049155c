package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// markerSize is the length of every marker: only files of that length need to be
// read to find one.
const markerSize = 61

// finding is something that a walk must not find.
type finding struct {
	What string `json:"what"`
	Path string `json:"path"`
}

// walkSeen ends a walk's report: how much it has looked at.
type walkSeen struct {
	Files int `json:"files"`
}

// devices are the only ones that a sandbox has, as major and minor numbers.
var devices = map[string][2]uint32{
	"/dev/null": {1, 3}, "/dev/zero": {1, 5}, "/dev/full": {1, 7}, "/dev/random": {1, 8}, "/dev/urandom": {1, 9},
	"/dev/tty": {5, 0}, "/dev/ptmx": {5, 2}, "/dev/pts/ptmx": {5, 2},
}

// walker looks at every file that can be reached by a name.
type walker struct {
	markers [][]byte
	out     *json.Encoder
	files   int
}

// wholeTree, as the first argument of runWalk, has it leave nothing out.
const wholeTree = "/"

// runWalk walks the tree and prints what must not be there. Its first argument is a
// directory below /usr, where nothing else is walked then, or wholeTree; the others are
// the markers to look for.
func runWalk(args []string) int {
	w := &walker{out: json.NewEncoder(os.Stdout)}
	usr := args[0]
	for _, m := range args[1:] {
		w.markers = append(w.markers, []byte(m))
	}
	_ = filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read shows nothing
		}
		if p == "/proc" {
			return fs.SkipDir // looked at below
		}
		if d.IsDir() && strings.HasPrefix(p, "/usr/") && usr != wholeTree && !onTheWay(p, usr) {
			return fs.SkipDir
		}
		w.look(p)
		return nil
	})
	w.processes()
	if err := w.out.Encode(walkSeen{w.files}); err != nil {
		return 1
	}
	return 0
}

// onTheWay reports whether one directory is the other, above it or below it.
func onTheWay(p, dir string) bool {
	return strings.HasPrefix(dir+"/", p+"/") || strings.HasPrefix(p+"/", dir+"/")
}

func (w *walker) found(what, path string) { _ = w.out.Encode(finding{what, path}) }

func (w *walker) look(p string) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return
	}
	w.files++
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		w.found("socket", p)
	case unix.S_IFIFO:
		w.found("pipe", p)
	case unix.S_IFBLK:
		w.found("block device", p)
	case unix.S_IFCHR:
		want, ok := devices[p]
		if has := [2]uint32{unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))}; !ok || has != want {
			w.found(fmt.Sprintf("device %v", has), p)
		}
	case unix.S_IFREG:
		if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			w.found("setuid file", p)
		}
		if st.Size == markerSize {
			w.read("marker", p)
		}
		w.secret(p)
	}
	for _, home := range []string{"/root/", "/home/"} {
		if strings.HasPrefix(p, home) && p != "/home/user" && !strings.HasPrefix(p, "/home/user/") {
			w.found("in a home", p)
		}
	}
}

// secret names files that must not be readable whatever they hold.
func (w *walker) secret(p string) {
	base := filepath.Base(p)
	if slices.Contains([]string{"/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers"}, p) ||
		strings.HasPrefix(p, "/etc/") && (strings.HasPrefix(base, "ssh_host_") || strings.HasSuffix(base, ".key")) ||
		base == "authorized_keys" || base == "id_rsa" || base == "id_ed25519" {
		if f, err := os.Open(p); err == nil {
			f.Close()
			w.found("secret", p)
		}
	}
}

// read looks for markers in a file.
func (w *walker) read(what, p string) {
	b, err := os.ReadFile(p)
	if err != nil {
		return
	}
	for _, m := range w.markers {
		if bytes.Contains(b, m) {
			w.found(what+" "+string(m), p)
		}
	}
}

// processes reads what /proc shows of everybody.
func (w *walker) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	for _, d := range dirs {
		if d == self {
			continue // its own arguments are the markers
		}
		w.files++
		for _, f := range []string{"environ", "cmdline", "comm", "status", "mountinfo", "maps"} {
			w.read("process", filepath.Join(d, f))
		}
	}
}
