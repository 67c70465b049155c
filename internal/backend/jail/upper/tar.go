package upper

import (
	"archive/tar"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strings"
	"time"
)

// The names of an image layer's archive that change what lies in lower layers.
const (
	archiveWhiteout = ".wh."
	archiveOpaque   = ".wh..wh..opq"
)

// maxArchivePath is the maximum length of a path in an archive, in bytes: what programs that
// read it can use.
const maxArchivePath = 3 << 10

// TarOptions are limits of Tar.
type TarOptions struct {
	// Entries and Bytes are the maximum number of entries, and of bytes of files with their
	// holes.
	Entries, Bytes int64
}

// Tar writes the tree of a saved file as the archive of an image's layer: with the forms of
// whiteouts and opaque directories that images have. It creates no file. Fifos and sockets are
// left out.
//
// It returns a *RefusedError if an archive cannot hold the tree, or if the file has another
// tree than the root's, and the errors of w and ctx.
func Tar(ctx context.Context, w io.Writer, saved io.Reader, o TarOptions) error {
	u, err := NewReader(saved, nil)
	if err != nil {
		return err
	}
	t := &archiver{Reader: u, ctx: ctx, w: tar.NewWriter(w), o: o, seed: maphash.MakeSeed(), files: map[uint64]file{}}
	if err := t.root(); err != nil {
		return err
	}
	return t.w.Close()
}

// archiver writes one archive. It opens nothing: what it reads was written by a guest.
type archiver struct {
	*Reader
	ctx context.Context
	w   *tar.Writer
	o   TarOptions
	// files are the entries that hard links can lead to, by the hash of their path: a guest
	// chooses paths, so they are not kept in memory. An archive has the owner and mode of a
	// file at each of its names.
	seed  maphash.Seed
	files map[uint64]file
}

// file is what a hard link needs to know of a file.
type file struct {
	meta
	left bool // it is left out of the archive
}

func (t *archiver) remember(full string, f file) { t.files[maphash.String(t.seed, full)] = f }

func (t *archiver) root() error {
	rec, err := t.byte()
	if err != nil {
		return err
	}
	name, err := t.name()
	if err != nil {
		return err
	}
	if rec != recTree || name != Root {
		return errBad("%s is missing", Root)
	}
	m, err := t.readMeta()
	if err != nil {
		return err
	}
	if err := t.header(tar.TypeDir, "./", m, nil); err != nil {
		return err
	}
	if err := t.entries("", 0); err != nil {
		return err
	}
	if b, err := t.r.Peek(1); err == nil && b[0] == recTree {
		return &RefusedError{Path: Workspace, Why: "the sandbox had a workspace, whose layers are not in its template"}
	}
	return t.End()
}

// entries writes the entries of a directory until its end.
func (t *archiver) entries(dir string, depth int) error {
	if depth > maxDepth {
		return errBad("directories are nested too deep")
	}
	for {
		rec, err := t.byte()
		if err != nil || rec == recUp {
			return err
		}
		name, err := t.name()
		if err != nil {
			return err
		}
		if err := t.entry(rec, path.Join(dir, name), name, depth); err != nil {
			return err
		}
	}
}

func (t *archiver) entry(rec byte, full, name string, depth int) error {
	if strings.HasPrefix(name, archiveWhiteout) {
		return &RefusedError{Path: full, Why: "an image cannot have a name that begins with " + archiveWhiteout}
	}
	if len(full) > maxArchivePath {
		return &RefusedError{Path: full, Why: fmt.Sprintf("its path has more than %d bytes", maxArchivePath)}
	}
	switch rec {
	case recWhiteout:
		return t.header(tar.TypeReg, path.Join(path.Dir(full), archiveWhiteout+name), meta{}, nil)
	case recHard:
		return t.hardLink(full)
	}
	m, err := t.readMeta()
	if err != nil {
		return err
	}
	switch rec {
	case recDir, recOpaque:
		if err := t.header(tar.TypeDir, full+"/", m, nil); err != nil {
			return err
		}
		if rec == recOpaque {
			if err := t.header(tar.TypeReg, path.Join(full, archiveOpaque), meta{}, nil); err != nil {
				return err
			}
		}
		return t.entries(full, depth+1)
	case recFile:
		return t.content(full, m)
	case recSymlink:
		target, err := t.text()
		if err != nil {
			return err
		}
		m.mode = 0o777 // a link has no other
		t.remember(full, file{meta: m})
		return t.header(tar.TypeSymlink, full, m, func(h *tar.Header) { h.Linkname = target })
	case recFifo, recSocket:
		if err := t.count(); err != nil {
			return err
		}
		t.remember(full, file{left: true})
		return nil
	}
	return errBad("unknown record %q", rec)
}

// hardLink writes a link to an earlier entry of the tree.
func (t *archiver) hardLink(full string) error {
	target, err := t.text()
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(target, "/") {
		if !goodName(part) || strings.HasPrefix(part, archiveWhiteout) {
			return errBad("invalid link to %.80q", target)
		}
	}
	f, ok := t.files[maphash.String(t.seed, target)]
	switch {
	case !ok:
		return errBad("invalid link to %.80q", target)
	case f.left:
		return t.count()
	}
	return t.header(tar.TypeLink, full, f.meta, func(h *tar.Header) { h.Linkname = target })
}

// count counts an entry.
func (t *archiver) count() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if t.o.Entries--; t.o.Entries < 0 {
		return &RefusedError{Path: ".", Why: "it has too many entries"}
	}
	return nil
}

func (t *archiver) header(kind byte, name string, m meta, change func(*tar.Header)) error {
	if err := t.count(); err != nil {
		return err
	}
	at := time.Unix(m.sec, int64(m.nsec))
	if at.Year() < 1902 || at.Year() > 2400 { // outside of what file systems store
		at = time.Unix(0, 0)
	}
	h := &tar.Header{Typeflag: kind, Name: name, Mode: int64(m.mode), Uid: int(m.uid), Gid: int(m.gid), ModTime: at, Format: tar.FormatPAX}
	if change != nil {
		change(h)
	}
	return t.w.WriteHeader(h)
}

// content writes a file, with zeros for its holes.
func (t *archiver) content(full string, m meta) error {
	size, err := t.number()
	if err != nil {
		return err
	}
	if t.o.Bytes -= size; t.o.Bytes < 0 {
		return &RefusedError{Path: full, Why: "the files, holes included, are larger than an image can be"}
	}
	if err := t.header(tar.TypeReg, full, m, func(h *tar.Header) { h.Size = size }); err != nil {
		return err
	}
	t.remember(full, file{meta: m})
	at := int64(0)
	for {
		off, err := t.number()
		if err != nil {
			return err
		}
		n, err := t.number()
		if err != nil {
			return err
		}
		if n == 0 {
			return t.zeros(size - at)
		}
		if off < at || n > size || off > size-n {
			return errBad("the content of a file exceeds its size")
		}
		if err := t.zeros(off - at); err != nil {
			return err
		}
		if err := t.copyData(n); err != nil {
			return err
		}
		at = off + n
	}
}

func (t *archiver) copyData(n int64) error {
	for n > 0 {
		b := t.buf[:min(int64(len(t.buf)), n)]
		if _, err := io.ReadFull(t.r, b); err != nil {
			return cut(err)
		}
		if _, err := t.w.Write(b); err != nil {
			return err
		}
		n -= int64(len(b))
	}
	return nil
}

func (t *archiver) zeros(n int64) error {
	if n == 0 {
		return nil
	}
	b := t.buf[:min(int64(len(t.buf)), n)]
	clear(b)
	for n > 0 {
		w, err := t.w.Write(b[:min(int64(len(b)), n)])
		if err != nil {
			return err
		}
		n -= int64(w)
	}
	return nil
}
