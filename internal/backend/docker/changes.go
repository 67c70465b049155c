package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/copied"
	"hortus.dev/internal/storage/workspace"
)

const (
	// maxFiles and maxNames are the maximum number of files in a workspace that is stored, and the maximum size of
	// their names and of the targets of links in bytes.
	maxFiles = 2_000_000
	maxNames = 256 << 20
	// maxPath is the maximum length of a path. An engine leaves out of its archives, without an error, what it cannot name with the
	// 4095 bytes that the kernel allows. A path longer than this may be that of a directory with such entries.
	maxPath = 3500
	// checkEach is the number of bytes of changed files after which it is checked that there is space for them.
	checkEach = 64 << 20
	// block is the granularity of holes in the copy of a changed file.
	block = 32 << 10
)

// file is a file of the workspace, here or in the container.
type file struct {
	kind    workspace.Mode
	size    int64
	sum     [sha256.Size]byte
	link    string // the target of a symlink
	modTime time.Time
	same    bool   // it is stored as it is
	at      int64  // where the content of a changed one begins in the blob; -1 if it is not there
	first   string // of a hard link, the name that the archive has it by
}

// is reports whether two files are the same, whatever their times are.
func (f file) is(o file) bool {
	return f.kind == o.kind && f.size == o.size && f.sum == o.sum && f.link == o.link
}

// regular reports whether it is a regular file.
func (f file) regular() bool { return f.kind == workspace.Regular || f.kind == workspace.Executable }

// changes are the differences between the stored files and those of a container, which its programs wrote.
type changes struct {
	stored, now map[string]file
	pending     []string // changed files whose content is not in the blob yet
	names       int64
	blob        *os.File               // the content of changed files
	end         int64                  // of the blob
	left        int64                  // bytes that changed files may have
	checked     int64                  // size of the blob for which there was space
	space       func(need int64) error // refuses more bytes of changed files than there is space for
	open        func(path string) (io.ReadCloser, error)
}

// readStored reads the files that are stored.
func (c *changes) readStored(ctx context.Context, f *copied.Files) error {
	return f.Walk(ctx, func(e workspace.Entry) error {
		is := file{kind: e.Mode, size: e.Size, modTime: e.ModTime}
		var err error
		switch e.Mode {
		case workspace.Directory:
		case workspace.Symlink:
			is.size = 0
			is.link, err = e.Target()
		default:
			var content io.ReadCloser
			if content, err = e.Open(); err == nil {
				is.sum, err = digest(content, io.Discard)
				content.Close()
			}
		}
		c.stored[e.Path] = is
		return err
	})
}

// digest copies content, and returns its digest.
func digest(r io.Reader, w io.Writer) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(h, w), r)
	h.Sum(sum[:0])
	return sum, err
}

// read reads the files of the container.
func (c *changes) read(ctx context.Context) error {
	if err := c.readArchive(ctx); err != nil {
		return err
	}
	// An engine answers one request for files of a container after the other: the first archive must be closed before these.
	for _, p := range c.pending {
		if err := ctx.Err(); err != nil {
			return err
		}
		is := c.now[p]
		of := cmp.Or(is.first, p)
		first := c.now[of]
		if first.at < 0 {
			if err := c.again(of, &first); err != nil {
				return err
			}
			c.now[of] = first
		}
		is.at = first.at
		c.now[p] = is
	}
	return nil
}

// readArchive reads the archive of all files.
func (c *changes) readArchive(ctx context.Context) error {
	r, err := c.open(workspaceDir)
	if err != nil {
		return err
	}
	defer r.Close()
	top := path.Base(workspaceDir)
	in := &counter{r: r}
	for t := tar.NewReader(in); ; {
		in.n = 0
		h, err := t.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF && in.n < trailer:
			return api.Errorf(api.KindUnavailable, "the engine's archive of the workspace is truncated")
		case err == io.EOF:
			return nil
		case err != nil:
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace: %w", err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if name == top {
			if h.Typeflag != tar.TypeDir {
				return api.Errorf(api.KindUnavailable, "%s of the sandbox is no directory", workspaceDir)
			}
			continue
		}
		p, ok := strings.CutPrefix(name, top+"/")
		if !ok {
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace has %.200q", h.Name)
		}
		if len(p) > maxPath {
			return api.Errorf(api.KindConflict, "%.100q in the workspace has a path of more than %d bytes", p, maxPath).WithHint("Remove it.")
		}
		if c.names += int64(len(p) + len(h.Linkname)); len(c.now) >= maxFiles || c.names > maxNames {
			return api.Errorf(api.KindExhausted, "the workspace has more than %d files, or names and links of more than %d bytes", maxFiles, maxNames).
				WithHint("Remove some.")
		}
		if err := c.entry(p, top, h, t); err != nil {
			return err
		}
	}
}

// trailer is the size of the end of an archive. Without it the archive was cut off between two entries.
const trailer = 1024

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// entry reads an entry of the container's archive. Pipes, sockets and devices are left out.
func (c *changes) entry(p, top string, h *tar.Header, content io.Reader) error {
	is := file{modTime: h.ModTime, at: -1}
	switch h.Typeflag {
	case tar.TypeDir:
		is.kind = workspace.Directory
	case tar.TypeSymlink:
		is.kind, is.link = workspace.Symlink, h.Linkname
		is.same = c.stored[p].is(is)
	case tar.TypeReg:
		is.kind, is.size = mode(h), h.Size
		if err := c.regular(p, &is, content); err != nil {
			return err
		}
	case tar.TypeLink: // another name of a file that the archive has
		of, ok := strings.CutPrefix(h.Linkname, top+"/")
		first, known := c.now[of]
		if !ok || !known || !first.regular() {
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace has %.200q as a link to %.200q", h.Name, h.Linkname)
		}
		is = first
		is.first = of
		if is.same = c.stored[p].is(is); !is.same && is.at < 0 {
			c.pending = append(c.pending, p)
		}
	default:
		return nil
	}
	c.now[p] = is
	return nil
}

func mode(h *tar.Header) workspace.Mode {
	if h.Mode&0o100 != 0 {
		return workspace.Executable
	}
	return workspace.Regular
}

// regular reads the content of a file. It is kept in the blob, unless it is what is stored: the time of the last change is a guess,
// because programs can set it, and the content decides.
func (c *changes) regular(p string, is *file, content io.Reader) (err error) {
	was := c.stored[p]
	maySame := was.kind == is.kind && was.size == is.size
	if maySame && was.modTime.Unix() == is.modTime.Unix() {
		if is.sum, err = digest(content, io.Discard); err != nil {
			return err
		}
		if is.same = was.is(*is); !is.same {
			c.pending = append(c.pending, p)
		}
		return nil
	}
	if !maySame {
		if err := c.take(is.size); err != nil { // before it is read: it may have holes of any size
			return err
		}
	}
	if is.sum, err = c.keep(content, is.size); err != nil {
		return err
	}
	if is.same = was.is(*is); is.same {
		return c.blob.Truncate(c.end)
	}
	if maySame {
		if err := c.take(is.size); err != nil {
			return err
		}
	}
	return c.kept(is)
}

// keep writes content of a size at the end of the blob, and returns its digest. Blocks of zeros become holes: a file with holes costs
// its sandbox no disk, and is not to fill the host's.
func (c *changes) keep(content io.Reader, size int64) (sum [sha256.Size]byte, err error) {
	h, buf := sha256.New(), make([]byte, block)
	for done := int64(0); done < size; {
		b := buf[:min(block, size-done)]
		if _, err := io.ReadFull(content, b); err != nil {
			return sum, fmt.Errorf("the engine's archive of the workspace: %w", err)
		}
		h.Write(b)
		if b[0] != 0 || !bytes.Equal(b[1:], b[:len(b)-1]) {
			if _, err := c.blob.WriteAt(b, c.end+done); err != nil {
				return sum, err
			}
		}
		done += int64(len(b))
	}
	h.Sum(sum[:0])
	return sum, nil
}

// kept makes the end of the blob the content of a changed file.
func (c *changes) kept(is *file) error {
	is.at = c.end
	c.end += is.size
	return c.blob.Truncate(c.end) // the file may end in a hole
}

// take counts bytes of changed files.
func (c *changes) take(n int64) error {
	if c.left -= n; n < 0 || c.left < 0 {
		return api.Errorf(api.KindExhausted, "the changed files have more bytes than the workspace may have").
			WithHint("Raise its quota: hortus workspace quota ID SIZE.")
	}
	if c.end+n < c.checked+checkEach {
		return nil
	}
	c.checked = c.end + n
	return c.space(c.checked)
}

// again reads the content of a file that was not kept into the blob.
func (c *changes) again(p string, is *file) error {
	r, err := c.open(path.Join(workspaceDir, p))
	if err != nil {
		return err
	}
	defer r.Close()
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Size != is.size {
		return api.Errorf(api.KindInternal, "the engine's archive of %.200q is not as it was: %v", p, err)
	}
	if err := c.take(is.size); err != nil {
		return err
	}
	sum, err := c.keep(t, is.size)
	if err == nil && sum != is.sum {
		err = api.Errorf(api.KindUnavailable, "the file %.200q of the container has changed while it was copied", p)
	}
	if err != nil {
		return err
	}
	return c.kept(is)
}

// remaining lists all files of the container.
func (c *changes) remaining() map[string]workspace.Remaining {
	all := make(map[string]workspace.Remaining, len(c.now))
	for p, f := range c.now {
		kind := f.kind
		if f.regular() {
			kind = workspace.Regular
		}
		all[p] = workspace.Remaining{Kind: kind, Same: f.same}
	}
	return all
}

// write writes an archive of the changed files.
func (c *changes) write(ctx context.Context, w io.Writer) error {
	t := tar.NewWriter(w)
	for p, f := range c.now {
		if err := ctx.Err(); err != nil {
			return err
		}
		h := &tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o644, Size: f.size, ModTime: f.modTime, Format: tar.FormatPAX}
		switch {
		case f.same || f.kind == workspace.Directory:
			continue
		case f.kind == workspace.Symlink:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.link, 0
		case f.kind == workspace.Executable:
			h.Mode = 0o755
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%.200q: %w", p, err)
		}
		if _, err := io.Copy(t, io.NewSectionReader(c.blob, f.at, f.size)); err != nil {
			return fmt.Errorf("%.200q: %w", p, err)
		}
	}
	return t.Close()
}
