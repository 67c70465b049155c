package source

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// maxFiles bounds the files of an archive.
const maxFiles = 100_000

// files are the files of an archive or a directory, by their path.
type files interface {
	// open fails with KindNotFound if there is no regular file.
	open(name string) (io.ReadCloser, int64, error)
	Close() error
}

func openPath(p string, cfg Config) (*Image, error) {
	f, err := openFiles(path.Clean(p))
	if err != nil {
		return nil, err
	}
	img, err := readFiles(f, cfg.Architecture)
	if err != nil {
		f.Close()
		return nil, api.Errorf(api.KindOf(err), "image %.200s: %w", p, err)
	}
	img.Reference, img.close = path.Clean(p), f.Close
	return img, nil
}

func openFiles(p string) (files, error) {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, api.Errorf(kindOf(err), "image %.200s: %w", p, err).
			WithHint("the daemon reads the file; it runs as the user who started it")
	}
	file := os.NewFile(uintptr(fd), p)
	st, err := file.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		return &directory{file}, nil
	case st.Mode().IsRegular():
		var a *archive
		if a, err = indexArchive(file); err == nil {
			return a, nil
		}
	default:
		err = api.Errorf(api.KindInvalid, "it is neither a file nor a directory")
	}
	file.Close()
	return nil, api.Errorf(api.KindOf(err), "image %.200s: %w", p, err)
}

func kindOf(err error) api.Kind {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return api.KindNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return api.KindDenied
	}
	return api.KindInternal
}

// directory is an OCI layout.
type directory struct{ dir *os.File }

func (d *directory) Close() error { return d.dir.Close() }

func (d *directory) open(name string) (io.ReadCloser, int64, error) {
	fd, err := beneath.Open(int(d.dir.Fd()), name, unix.O_RDONLY)
	if err == unix.ELOOP || err == unix.EXDEV {
		return nil, 0, api.Errorf(api.KindInvalid, "%.200s is a link or leads through one", name)
	}
	if err != nil {
		return nil, 0, api.Errorf(kindOf(err), "%.200s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, api.Errorf(api.KindInvalid, "%.200s: %w", name, err)
	}
	return f, st.Size(), nil
}

// archive is an uncompressed tar archive. Its files are read where they lie.
type archive struct {
	file  *os.File
	at    map[string]span
	links map[string]string
}

type span struct{ offset, size int64 }

// indexArchive reads the headers of an archive. Contents are skipped by seeking.
func indexArchive(f *os.File) (*archive, error) {
	a := &archive{file: f, at: map[string]span{}, links: map[string]string{}}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tr := tar.NewReader(f)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return a, nil
		}
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "it is not a tar archive: %w", err)
		}
		if n == maxFiles {
			return nil, api.Errorf(api.KindInvalid, "the archive has more than %d files", maxFiles)
		}
		name := path.Clean(strings.TrimLeft(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			if h.Size < 0 || at+h.Size > st.Size() {
				return nil, api.Errorf(api.KindInvalid, "the archive is truncated")
			}
			if _, dup := a.at[name]; dup {
				return nil, api.Errorf(api.KindInvalid, "the archive has %.200q twice", name)
			}
			a.at[name] = span{at, h.Size}
		case tar.TypeSymlink: // an older docker save shares layers by links
			a.links[name] = path.Join(path.Dir(name), h.Linkname)
		}
	}
}

func (a *archive) Close() error { return a.file.Close() }

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	if to, ok := a.links[name]; ok {
		name = to // one step: a link to a link is not found
	}
	s, ok := a.at[name]
	if !ok {
		return nil, 0, api.Errorf(api.KindNotFound, "the archive has no file %.200q", name)
	}
	return io.NopCloser(io.NewSectionReader(a.file, s.offset, s.size)), s.size, nil
}

// document reads a bounded file.
func document(f files, name string) ([]byte, error) {
	r, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxDocument {
		return nil, api.Errorf(api.KindInvalid, "%.200s has %d bytes, the maximum is %d", name, size, maxDocument)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(b) > maxDocument {
		err = errors.New("the file grew")
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%.200s: %w", name, err)
	}
	return b, nil
}

// readFiles finds the image of a layout or a docker save archive.
func readFiles(f files, architecture string) (*Image, error) {
	saved, err := document(f, "manifest.json")
	if err == nil {
		return readSaved(f, saved, architecture)
	}
	if api.KindOf(err) != api.KindNotFound {
		return nil, err
	}
	index, err := document(f, "index.json")
	if api.KindOf(err) == api.KindNotFound {
		return nil, api.Errorf(api.KindInvalid, "it has neither manifest.json (docker save) nor index.json (OCI layout)")
	}
	if err != nil {
		return nil, err
	}
	return readIndex(f, index, architecture, maxNesting)
}

// readSaved reads the manifest of docker save.
func readSaved(f files, b []byte, architecture string) (*Image, error) {
	var all []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, api.Errorf(api.KindInvalid, "manifest.json: %w", err)
	}
	if len(all) != 1 {
		return nil, api.Errorf(api.KindInvalid, "the archive has %d images; save one", len(all))
	}
	m := all[0]
	raw, err := document(f, m.Config)
	if err != nil {
		return nil, err
	}
	c, err := parseConfiguration(raw, architecture, len(m.Layers))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	out := &Image{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	out.apply(c)
	for i, name := range m.Layers {
		// The digest of its content is verified when it is unpacked.
		l, err := fileLayer(f, name, c.RootFS.DiffIDs[i])
		if err != nil {
			return nil, err
		}
		out.Layers = append(out.Layers, l)
	}
	return out, nil
}

func fileLayer(f files, name, diffID string) (Layer, error) {
	r, size, err := f.open(name)
	if err != nil {
		return Layer{}, err
	}
	r.Close()
	return Layer{DiffID: diffID, Size: size, Open: func(context.Context) (io.ReadCloser, error) {
		r, _, err := f.open(name)
		return r, err
	}}, nil
}
