package artefact

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Restore writes the files of an artefact into an empty directory. label is what they must be of, and limit the maximum size of all
// together. Every object is compared with its digest. After an error the directory has an unspecified part of the files.
//
// Errors: KindNotFound if there is no artefact, KindInvalid if something of it is damaged or missing, KindExhausted if the disk is full, and
// those of the blobs.
func (s *Store) Restore(ctx context.Context, r Ref, label string, limit int64, into string) error {
	m, err := s.manifest(ctx, r, label, limit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	files := make([]*os.File, 0, len(m.Files))
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	uses := make([][]use, len(m.Chunks))
	for i, f := range m.Files {
		w, err := os.OpenFile(filepath.Join(into, f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o400)
		if err != nil {
			return onDisk(label, err)
		}
		files = append(files, w)
		if err := w.Truncate(f.Bytes); err != nil {
			return onDisk(label, err)
		}
		for _, e := range f.Extents {
			uses[e[1]] = append(uses[e[1]], use{i, e})
		}
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, workers)
	for i, c := range m.Chunks {
		if len(uses[i]) == 0 {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-slots }()
			if err := s.fetch(ctx, c, m, uses[i], files); err != nil {
				cancel(err)
			}
		})
	}
	work.Wait()
	if err := context.Cause(ctx); err != nil {
		return onDisk(label, err)
	}
	return s.pass("fetched")
}

// use is an extent of a file, by its number.
type use struct {
	file int
	extent
}

// fetch writes the pages of a chunk.
func (s *Store) fetch(ctx context.Context, c chunk, m manifest, uses []use, files []*os.File) error {
	object, err := s.read(ctx, s.chunkBlob(c.SHA256), c.Bytes)
	if api.KindOf(err) == api.KindNotFound {
		return api.Errorf(api.KindInvalid, "the chunk %.16s is not in the archive", c.SHA256)
	}
	if err != nil {
		return err
	}
	plain, err := s.open(object, c.SHA256, chunkKind, int(c.Pages)*pageSize)
	if err == nil && len(plain) != int(c.Pages)*pageSize {
		err = fmt.Errorf("it has %d bytes, not %d pages", len(plain), c.Pages)
	}
	if err != nil {
		return api.Errorf(api.KindInvalid, "the chunk %.16s: %w", c.SHA256, err)
	}
	for _, u := range uses {
		at := u.extent[0] * pageSize
		b := plain[u.extent[2]*pageSize:][:u.extent[3]*pageSize]
		b = b[:min(int64(len(b)), m.Files[u.file].Bytes-at)] // the last page may be longer than the file
		if _, err := files[u.file].WriteAt(b, at); err != nil {
			return err
		}
	}
	return s.pass("chunk fetched")
}

// onDisk says what an error of the disk is about.
func onDisk(label string, err error) error {
	if errIsFull(err) {
		return api.Errorf(api.KindExhausted, "no space left on the disk for %s from the archive: %w", label, err).
			WithHint("free space on the disk of the data directory: hortus gc")
	}
	return err
}
