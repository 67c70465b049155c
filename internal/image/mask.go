package image

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/layer"
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
	m := &masker{b: b, source: source, dir: filepath.Join(b.dir, fmt.Sprintf("mask%d", len(b.mounts)))}
	fi, err := os.Stat(source)
	if err != nil {
		return err
	}
	m.dev = fi.Sys().(*syscall.Stat_t).Dev
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return err
	}
	if err := m.walk("."); err != nil {
		return err
	}
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
	dev       uint64
	seen      int
	hidden    int
	submounts []string
}

func (m *masker) walk(rel string) error {
	if err := m.b.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(m.source, rel))
	if err != nil {
		return err
	}
	if m.seen += len(entries); m.seen > maxFiles {
		return fmt.Errorf("%s holds more than %d files", m.source, maxFiles)
	}
	for _, e := range entries {
		p := filepath.Join(rel, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			continue // it shows a name only; what it points at is judged where it lies
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(m.source, p), &st); err != nil {
			if err == unix.ENOENT {
				continue // removed since
			}
			return &fs.PathError{Op: "lstat", Path: filepath.Join(m.source, p), Err: err}
		}
		if mustHide(st.Mode) {
			if err := m.hide(p); err != nil {
				return err
			}
			continue
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if uint64(st.Dev) != m.dev {
			m.submounts = append(m.submounts, p)
			continue
		}
		if err := m.walk(p); err != nil {
			return err
		}
	}
	return nil
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
