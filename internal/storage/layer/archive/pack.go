package archive

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// The marks of an overlay, and their names in an archive.
const (
	whiteout     = ".wh."
	opaqueMarker = ".wh..wh..opq"
	opaque       = "user.overlay.opaque"
	overlayMarks = "user.overlay."
	userMarks    = "user."
	paxAttribute = "SCHILY.xattr."
	hostLabel    = "security.selinux" // of this machine's policy
)

type inode struct{ dev, ino uint64 }

// Content is what an archive has: the size of its files, in bytes, and all its entries.
type Content struct {
	Files   int64 `json:"files"`
	Entries int   `json:"entries"`
}

// packer writes a tree.
type packer struct {
	w      *tar.Writer
	names  map[inode]string // of files with several names
	owners bool
	n      Content
}

// Pack writes a tree, which nobody changes, as an uncompressed tar archive of an OCI image's
// layer. The same tree always makes the same archive. Without owners, everything in it belongs
// to root.
//
// Errors: KindUnsupported for a tree that an archive cannot hold, and those of w and ctx.
func Pack(ctx context.Context, w io.Writer, root string, owners bool) (Content, error) {
	p := &packer{w: tar.NewWriter(w), names: map[inode]string{}, owners: owners}
	err := filepath.WalkDir(root, func(at string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err == nil {
			err = p.entry(at, rel)
		}
		return err
	})
	if err != nil {
		return p.n, err
	}
	return p.n, p.w.Close()
}

func unsupported(rel, why string) error {
	return api.Errorf(api.KindUnsupported, "%.200q %s, which an archive of a layer cannot have", rel, why)
}

// entry writes one entry.
func (p *packer) entry(at, rel string) error {
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return err
	}
	h := &tar.Header{
		Name: rel, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec), Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	if !p.owners {
		h.Uid, h.Gid = 0, 0
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case strings.HasPrefix(path.Base(rel), whiteout):
		return unsupported(rel, "has a name that begins with "+whiteout)
	case kind == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return unsupported(rel, "has a setuid or setgid bit")
	case kind == unix.S_IFCHR && st.Rdev == 0:
		h = &tar.Header{Name: path.Join(path.Dir(rel), whiteout+path.Base(rel)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		return p.header(h)
	}
	if kind == unix.S_IFREG && st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino}
		if first, ok := p.names[id]; ok {
			h.Typeflag, h.Linkname, h.PAXRecords = tar.TypeLink, first, nil
			return p.header(h)
		}
		p.names[id] = rel
	}
	isOpaque, err := attributes(at, rel, h.PAXRecords)
	if err != nil {
		return err
	}
	switch kind {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
		if err := p.header(h); err != nil || !isOpaque {
			return err
		}
		return p.header(&tar.Header{Name: path.Join(rel, opaqueMarker), Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(at); err != nil {
			return err
		}
		return p.header(h)
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
		return p.file(at, h)
	}
	return unsupported(rel, "is a device, pipe or socket")
}

func (p *packer) header(h *tar.Header) error {
	p.n.Entries++
	if err := p.w.WriteHeader(h); err != nil {
		return fmt.Errorf("%.200q: %w", h.Name, err)
	}
	return nil
}

// file writes a file, which does not change.
func (p *packer) file(at string, h *tar.Header) error {
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.header(h); err != nil {
		return err
	}
	p.n.Files += h.Size
	n, err := io.Copy(p.w, io.LimitReader(f, h.Size))
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// attributes adds the extended attributes of an entry to its records.
func attributes(at, rel string, records map[string]string) (isOpaque bool, err error) {
	list := make([]byte, 64<<10)
	n, err := unix.Llistxattr(at, list)
	if err == unix.ENOTSUP {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%.200q: its attributes: %w", rel, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		switch {
		case name == "" || name == overlayMarks+"origin" || name == overlayMarks+"impure" || name == hostLabel:
			continue // of no meaning in a lower layer
		case !strings.HasPrefix(name, userMarks), strings.HasPrefix(name, overlayMarks) && name != opaque:
			return false, unsupported(rel, fmt.Sprintf("has the attribute %.100q", name))
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(at, name, value)
		if err != nil {
			return false, fmt.Errorf("%.200q: attribute %.100q: %w", rel, name, err)
		}
		if name == opaque {
			isOpaque = string(value[:n]) == "y"
			continue
		}
		records[paxAttribute+name] = string(value[:n])
	}
	return isOpaque, nil
}
