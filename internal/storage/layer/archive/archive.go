package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/unpack"
)

// overhead is what an archive may have beyond the bytes of its files, for each entry.
const overhead = 16 << 10

// Archive keeps trees in blobs. Its methods may be called from several goroutines and
// processes.
type Archive struct {
	Blobs Blobs
}

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return api.Errorf(api.KindInvalid, "%.100q is not the name of an archive", name)
	}
	return nil
}

// Has reports whether there is an archive of that name.
func (a Archive) Has(ctx context.Context, name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	return a.Blobs.Has(ctx, recordOf(name))
}

// Save stores the archive of a tree, unless it is there.
//
// Errors: KindUnsupported for a tree that an archive cannot hold, and those of the blobs.
func (a Archive) Save(ctx context.Context, name, root string) error {
	if has, err := a.Has(ctx, name); err != nil || has {
		return err
	}
	r, err := a.stream(ctx, newBlob(name), root)
	if err != nil {
		return about(name, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return about(name, err)
	}
	return about(name, a.Blobs.Put(ctx, recordOf(name), bytes.NewReader(append(b, '\n'))))
}

// stream packs a tree while it is stored.
func (a Archive) stream(ctx context.Context, blob, root string) (record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(to, sum)}
	r := record{Blob: blob, Owners: os.Geteuid() == 0}
	packed := make(chan error, 1)
	go func() {
		z, err := zstd.NewWriter(counted)
		if err == nil {
			r.Content, err = Pack(ctx, z, root, r.Owners)
			err = errors.Join(err, z.Close())
		}
		to.CloseWithError(err) // Put fails with it
		packed <- err
	}()
	stored := a.Blobs.Put(ctx, blob, from)
	from.CloseWithError(io.ErrClosedPipe) // ends a pack that nobody reads
	if err := <-packed; err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return r, err
	}
	r.Bytes, r.SHA256 = counted.n, hex.EncodeToString(sum.Sum(nil))
	return r, stored
}

// Restore writes the tree of an archive into an empty directory. After an error the directory
// has an unspecified part of it.
//
// Errors: KindNotFound if there is no archive, KindInvalid for one that is damaged or hostile,
// which Replace replaces, KindExhausted if the disk is full, and those of the blobs.
func (a Archive) Restore(ctx context.Context, name, to string) error {
	if err := checkName(name); err != nil {
		return err
	}
	r, err := a.read(ctx, name)
	if err != nil {
		return err
	}
	f, size, err := a.Blobs.Get(ctx, r.Blob)
	if api.KindOf(err) == api.KindNotFound {
		return api.Errorf(api.KindInvalid, "the archive of %s is gone; only its record is left", name)
	}
	if err != nil {
		return about(name, err)
	}
	defer f.Close()
	if size != r.Bytes {
		return api.Errorf(api.KindInvalid, "the archive of %s does not have the recorded size", name)
	}
	sum := sha256.New()
	// One byte more than recorded would change the hash.
	source := &errorReader{r: io.LimitReader(f, r.Bytes+1)}
	raw := io.TeeReader(source, sum)
	tar, err := unpack.Decompress(raw)
	if err != nil {
		return cause(name, api.Errorf(api.KindInvalid, "the archive of %s: %w", name, err), source.err)
	}
	defer tar.Close()
	entries := &errorReader{r: tar}
	got, err := unpack.Apply(ctx, entries, to, unpack.Options{
		Owners: r.Owners && os.Geteuid() == 0, MaxBytes: r.Files + int64(r.Entries+1)*overhead, MaxEntries: r.Entries,
	})
	if err == nil {
		_, err = io.Copy(io.Discard, raw)
	}
	switch {
	case err != nil && entries.err != nil:
		return cause(name, api.Errorf(api.KindInvalid, "the archive of %s: %w", name, err), source.err)
	case err != nil:
		return cause(name, err, source.err)
	case hex.EncodeToString(sum.Sum(nil)) != r.SHA256:
		return api.Errorf(api.KindInvalid, "the archive of %s is corrupt: its hash is not the recorded one", name)
	case got.Bytes != r.Files || got.Skipped+got.Dropped > 0:
		return api.Errorf(api.KindInvalid, "the archive of %s has something that a layer does not", name)
	}
	return nil
}

// cause is an error of unpacking, or of the blobs if reading them failed.
func cause(name string, err, reading error) error {
	if reading != nil {
		return about(name, reading)
	}
	return err
}

// read reads the record of an archive.
func (a Archive) read(ctx context.Context, name string) (r record, err error) {
	f, _, err := a.Blobs.Get(ctx, recordOf(name))
	if err != nil {
		return r, about(name, err)
	}
	defer f.Close()
	source := &errorReader{r: f}
	if r, err = parse(name, source); err != nil {
		return r, cause(name, api.Errorf(api.KindInvalid, "the record of the archive of %s: %w", name, err), source.err)
	}
	return r, nil
}

// probe is the blob that Check writes.
const probe = "hortus-check"

// checkWithin is the maximum time of a check.
const checkWithin = 20 * time.Second

// Report says whether the archive can be used; nil if there is none.
func (a *Archive) Report(ctx context.Context) *admin.ArchiveReport {
	if a == nil {
		return nil
	}
	r := &admin.ArchiveReport{Location: a.Blobs.String(), OK: true}
	if err := a.Check(ctx); err != nil {
		r.OK, r.Reason, r.Fix = false, err.Error(), api.HintOf(err)
	}
	return r
}

// Check stores a small blob and reads it, and returns what failed.
func (a Archive) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	text := []byte("hortus can write here\n")
	if err := a.Blobs.Put(ctx, probe, bytes.NewReader(text)); err != nil {
		return checked("written", err)
	}
	f, _, err := a.Blobs.Get(ctx, probe)
	if err != nil {
		return checked("read", err)
	}
	defer f.Close()
	got, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err == nil && !bytes.Equal(got, text) {
		err = api.Errorf(api.KindInvalid, "it returns %d other bytes than were stored", len(got))
	}
	if err == nil {
		// A store that does not say what is missing would fail each restore.
		_, err = a.Blobs.Has(ctx, probe+"-absent")
	}
	return checked("read", err)
}

func checked(what string, err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.KindOf(err), "the archive of layers cannot be %s: %w", what, err).WithHint("%s", api.HintOf(err))
}

// about says which archive an error is about.
func about(name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return api.Errorf(api.KindOf(err), "archive of %s: %w", name, err).WithHint("%s", api.HintOf(err))
}

// errorReader keeps the error of a reader, which what is above may hide.
type errorReader struct {
	r   io.Reader
	err error
}

func (e *errorReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err = err
	}
	return n, err
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
