package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer"
)

// maxFiles bounds how many files of one tree are looked at.
const maxFiles = 5_000_000

// mount shows a host directory at a place inside, under a mask of what it must
// not show. A file system that is mounted below it is shown by a mount of its
// own, with its own mask.
func (b *builder) mount(target, source string) error {
	if err := os.MkdirAll(filepath.Join(b.root, target), 0o755); err != nil {
		return err
	}
	return b.add(target, source)
}

func (b *builder) add(target, source string) error {
	m := &masker{b: b, source: source, dir: filepath.Join(b.dir, fmt.Sprintf("mask%d", len(b.mounts))), toolchain: strings.HasPrefix(target, "/opt/")}
	dir, err := os.Open(source)
	if err != nil {
		return err
	}
	if m.top, err = look(dir, "", unix.AT_EMPTY_PATH); err != nil {
		dir.Close()
		return err
	}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		dir.Close()
		return err
	}
	if err := m.walk(dir, ""); err != nil {
		return err
	}
	slices.Sort(m.submounts)
	lowers := []string{m.dir, source}
	if m.hidden == 0 {
		// Nothing to hide: the directory alone is the cheaper mount.
		if err := os.Remove(m.dir); err != nil {
			return err
		}
		lowers = lowers[1:]
	}
	b.hidden += m.hidden
	b.mounts = append(b.mounts, layer.Mount{Target: target, Lowers: lowers})
	for _, sub := range m.submounts {
		if err := b.add(filepath.Join(target, sub), filepath.Join(source, sub)); err != nil {
			return err
		}
	}
	return nil
}

// masker walks one file system and writes whiteouts.
type masker struct {
	b         *builder
	source    string
	dir       string // where the whiteouts go
	top       entry
	toolchain bool // it may have credentials that everybody can read
	seen      int
	hidden    int
	submounts []string
}

// walk judges what lies in a directory, and closes it. Names are looked up from the
// directory itself: from the top, each of 100,000 files would cost its whole path.
func (m *masker) walk(dir *os.File, rel string) error {
	defer dir.Close()
	if err := m.b.ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	if m.seen += len(entries); m.seen > maxFiles {
		return fmt.Errorf("%s has more than %d files", m.source, maxFiles)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // it shows a name only; what it points at is judged where it lies
		}
		got, err := look(dir, e.Name(), unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return err
		}
		// An overlay shows what lies below a mount point. A directory gets a mount of its
		// own, over it; of a file nobody judged what lies there.
		mounted := !got.sameMount(m.top)
		directory := got.mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case mustHide(got.mode) || mounted && !directory || m.toolchain && !directory && hasCredentials(rel, e.Name()):
			err = m.hide(filepath.Join(rel, e.Name()))
		case !directory:
		case mounted:
			m.submounts = append(m.submounts, filepath.Join(rel, e.Name()))
		default:
			err = m.below(dir, filepath.Join(rel, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below walks a directory in dir.
func (m *masker) below(dir *os.File, rel string) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(rel), flags, 0)
	if err == unix.ENOENT {
		return nil // removed since
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Join(m.source, rel), Err: err}
	}
	return m.walk(os.NewFile(uintptr(fd), filepath.Join(m.source, rel)), rel)
}

// entry is what the mask wants to know of a file.
type entry struct {
	mode         uint32
	major, minor uint32
	mount        uint64 // 0 where the kernel does not say it, before Linux 5.8
}

// sameMount reports whether two entries lie on one mount. Before Linux 5.8 only a
// directory of another file system is seen to be mounted: where a tree is an overlay
// itself, its files have other device numbers than its directories.
func (e entry) sameMount(o entry) bool {
	if e.mount != 0 && o.mount != 0 {
		return e.mount == o.mount
	}
	return e.mode&unix.S_IFMT != unix.S_IFDIR || e.major == o.major && e.minor == o.minor
}

// look returns what a name in a directory is, or with AT_EMPTY_PATH the directory itself.
func look(dir *os.File, name string, flags int) (entry, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), name, flags, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_MNT_ID, &st); err != nil {
		return entry{}, &fs.PathError{Op: "statx", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	e := entry{mode: uint32(st.Mode), major: st.Dev_major, minor: st.Dev_minor}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		e.mount = st.Mnt_id
	}
	return e, nil
}

// hasCredentials reports whether a file of a toolchain is one in which package managers keep tokens and passwords of the
// whole machine, or of all users of a toolchain. Nothing inside needs them. It is called for each file, and compares strings,
// since a regular expression would take as long as all the rest.
func hasCredentials(dir, name string) bool {
	switch name {
	case "credentials", "credentials.toml", ".npmrc", ".yarnrc", ".yarnrc.yml", ".netrc", ".pypirc", ".git-credentials", "pip.conf", "settings-security.xml":
		return true
	case "npmrc":
		return filepath.Base(dir) == "etc"
	case "settings.xml":
		return filepath.Base(dir) == "conf"
	}
	return false
}

// mustHide judges a file by its mode.
func mustHide(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return mode&0o005 != 0o005
	case unix.S_IFREG:
		return mode&0o004 == 0 || mode&(unix.S_ISUID|unix.S_ISGID) != 0
	case unix.S_IFLNK:
		return false
	}
	return true
}

// hide writes a whiteout, a character device 0:0, which an ordinary user may make.
func (m *masker) hide(rel string) error {
	p := filepath.Join(m.dir, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(p, unix.S_IFCHR, 0); err != nil {
		return &fs.PathError{Op: "hide", Path: p, Err: err}
	}
	m.hidden++
	return nil
}
