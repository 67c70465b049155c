package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/oci/unpack"
	"hortus.dev/internal/storage/storedir"
)

// maxRecord bounds a record while it is read, in bytes.
const maxRecord = 4 << 10

// overhead is what an archive may have beyond the bytes of its files, for each entry.
const overhead = 16 << 10

// Dir is a directory of archives. Its methods may be called from several goroutines and
// processes.
type Dir struct {
	// Path is an absolute path of a directory that exists.
	Path string
}

// record describes an archive.
type record struct {
	// Bytes is the size of the archive, SHA256 its hash.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Content
	// Owners says that it has the owners of root's files.
	Owners bool `json:"owners"`
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return api.Errorf(api.KindInvalid, "%.100q is not the name of an archive", name)
	}
	return nil
}

// Has reports whether there is an archive of that name.
func (d Dir) Has(name string) bool {
	_, err := os.Stat(filepath.Join(d.Path, name+".json"))
	return err == nil && checkName(name) == nil
}

// Save writes the archive of a tree, unless it is there.
//
// Errors: KindUnsupported for a tree that an archive cannot hold, KindExhausted if the disk is
// full.
func (d Dir) Save(ctx context.Context, name, root string) error {
	if err := checkName(name); err != nil || d.Has(name) {
		return err
	}
	f, err := os.CreateTemp(d.Path, ".new-*")
	if err != nil {
		return d.failed(name, err)
	}
	defer os.Remove(f.Name()) // a no-op once renamed
	defer f.Close()
	sum := sha256.New()
	r := record{Owners: os.Geteuid() == 0}
	counted := &counter{w: io.MultiWriter(f, sum)}
	z, err := zstd.NewWriter(counted)
	if err == nil {
		r.Content, err = Pack(ctx, z, root, r.Owners)
		err = errors.Join(err, z.Close())
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), d.file(name))
	}
	if err != nil {
		return d.failed(name, err)
	}
	r.Bytes, r.SHA256 = counted.n, hex.EncodeToString(sum.Sum(nil))
	return d.failed(name, d.describe(name, r))
}

// describe writes the record of an archive that is in place.
func (d Dir) describe(name string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(d.Path, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), storedir.Sync(d.Path)); err != nil { // the archive's name before the record's
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(d.Path, name+".json")); err != nil {
		return err
	}
	return storedir.Sync(d.Path)
}

// Restore writes the tree of an archive into an empty directory. After an error the directory
// has an unspecified part of it.
//
// Errors: KindNotFound if there is no archive, KindInvalid for one that is not what was saved or
// is hostile, KindExhausted if the disk is full.
func (d Dir) Restore(ctx context.Context, name, to string) error {
	if err := checkName(name); err != nil {
		return err
	}
	r, err := d.read(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.file(name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(name)
	}
	if err != nil {
		return d.failed(name, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() != r.Bytes {
		return api.Errorf(api.KindInvalid, "the archive of %s does not have the recorded size", name)
	}
	sum := sha256.New()
	raw := io.TeeReader(io.LimitReader(f, r.Bytes), sum)
	tar, err := unpack.Decompress(raw)
	if err != nil {
		return api.Errorf(api.KindInvalid, "the archive of %s: %w", name, err)
	}
	defer tar.Close()
	got, err := unpack.Apply(ctx, tar, to, unpack.Options{
		Owners: r.Owners && os.Geteuid() == 0, MaxBytes: r.Files + int64(r.Entries+1)*overhead, MaxEntries: r.Entries,
	})
	if err == nil {
		_, err = io.Copy(io.Discard, raw)
	}
	switch {
	case err != nil:
		return err
	case hex.EncodeToString(sum.Sum(nil)) != r.SHA256:
		return api.Errorf(api.KindInvalid, "the archive of %s is corrupt: its hash is not the recorded one", name)
	case got.Bytes != r.Files || got.Skipped+got.Dropped > 0:
		return api.Errorf(api.KindInvalid, "the archive of %s has something that a layer does not", name)
	}
	return nil
}

// read reads the record of an archive.
func (d Dir) read(name string) (r record, err error) {
	f, err := os.OpenFile(filepath.Join(d.Path, name+".json"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return r, notFound(name)
	}
	if err != nil {
		return r, d.failed(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return r, d.failed(name, err)
	}
	if r, err = parse(b); err != nil {
		return r, api.Errorf(api.KindInvalid, "the record of the archive of %s: %w", name, err)
	}
	return r, nil
}

// The limits of what an archive may claim: the size of a tree in bytes, and its entries.
const (
	maxFiles   = 1 << 40
	maxEntries = 10_000_000
)

func parse(b []byte) (r record, err error) {
	if len(b) > maxRecord {
		return r, fmt.Errorf("longer than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if r.Bytes <= 0 || r.Files < 0 || r.Files > maxFiles || r.Entries < 0 || r.Entries > maxEntries {
		return r, errors.New("its numbers do not make sense")
	}
	return r, nil
}

func (d Dir) file(name string) string { return filepath.Join(d.Path, name+".tar.zst") }

func notFound(name string) error {
	return api.Errorf(api.KindNotFound, "there is no archive of %s", name)
}

// failed says what an error of the directory's disk is about.
func (d Dir) failed(name string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || api.KindOf(err) == api.KindUnsupported:
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return api.Errorf(api.KindExhausted, "archive of %s: no space left on the disk of %s: %w", name, d.Path, err).
			WithHint("remove archives that are not needed from that directory")
	}
	return api.Errorf(api.KindInternal, "archive of %s: %w", name, err)
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
