package artefact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Parent is an artefact that has some of the pages of another one, and the directory with its files.
type Parent struct {
	Ref Ref
	Dir string
}

// Saved is what a Save has done.
type Saved struct {
	Ref Ref
	// Bytes is the size of the files without pages of zeros, Reused what of it the parent has already, and Stored the size of the
	// objects that were added.
	Bytes, Reused, Stored int64
}

// place is where a page is in the objects of the parent, or one of the two below.
type place struct{ chunk, at int32 }

var (
	zeros = place{-1, 0} // a page of zeros
	added = place{-2, 0} // a page that the parent does not have
)

// source is a file that is stored.
type source struct {
	*os.File
	bytes int64
	pages []place
}

// Save stores files of a directory, which do not change. label is what they are of. parent may be nil; if it is not there any more, or cannot be
// read, Save does without it. The manifest is stored last: after an error there is no artefact, and Collect removes what was stored.
//
// Errors: KindInvalid for names that are none of an artefact's, and those of the blobs.
func (s *Store) Save(ctx context.Context, label, dir string, names []string, parent *Parent) (Saved, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, SaveWithin, api.Errorf(api.KindTimeout, "%s could not be stored in the archive in %v", label, SaveWithin))
	defer cancel()
	w := &writer{s: s, m: manifest{Version: manifestVersion, Label: label}, chunks: map[string]int64{}}
	defer w.close()
	names = slices.Sorted(slices.Values(names))
	if len(names) > maxFiles || len(label) > maxName {
		return Saved{}, api.Errorf(api.KindInvalid, "%.100s has %d files; the maximum is %d", label, len(names), maxFiles)
	}
	for _, name := range names {
		if err := w.add(dir, name); err != nil {
			return Saved{}, api.Errorf(api.KindOf(err), "store %s: %w", label, err)
		}
	}
	from, err := s.pagesOf(ctx, parent)
	if err == nil {
		err = w.plan(ctx, from)
	}
	if err == nil {
		err = w.store(ctx, from)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Saved{}, err
	}
	return w.finish(ctx)
}

// writer stores one artefact.
type writer struct {
	s     *Store
	m     manifest
	files []source
	saved Saved

	// chunks are the numbers of the objects of the parent in the manifest.
	chunks map[string]int64
	// next has the pages of the chunk that is collected, whose number is nextNumber; nil if there is none.
	next       []byte
	nextNumber int64

	mu  sync.Mutex
	err error // the first one of the goroutines that store chunks
}

func (w *writer) close() {
	for _, f := range w.files {
		f.Close()
	}
}

func (w *writer) add(dir, name string) error {
	if !fileName(name) {
		return api.Errorf(api.KindInvalid, "%.100q cannot be the name of a file of an artefact", name)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return err
	}
	w.files = append(w.files, source{f, st.Size(), make([]place, pagesOf(st.Size()))})
	w.m.Files = append(w.m.Files, file{Name: name, Bytes: st.Size()})
	return nil
}

// known are the pages of a parent.
type known struct {
	m     manifest
	pages map[[sha256.Size]byte]place
}

// pagesOf reads the pages of a parent. A parent that cannot be used has none.
func (s *Store) pagesOf(ctx context.Context, p *Parent) (known, error) {
	if p == nil {
		return known{}, nil
	}
	m, err := s.manifest(ctx, p.Ref, "", math.MaxInt64)
	if err != nil {
		return known{}, unlessGone(ctx, err)
	}
	k := known{m, map[[sha256.Size]byte]place{}}
	for _, f := range m.Files {
		r, err := os.OpenFile(filepath.Join(p.Dir, f.Name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return known{}, unlessGone(ctx, err)
		}
		err = k.index(ctx, r, f)
		r.Close()
		if err != nil {
			return known{}, unlessGone(ctx, err)
		}
	}
	return k, nil
}

// unlessGone is the error of the context. Other errors of a parent do not keep an artefact from being stored.
func unlessGone(ctx context.Context, _ error) error { return context.Cause(ctx) }

// index adds the pages of a file.
func (k known) index(ctx context.Context, r io.ReaderAt, f file) error {
	buf := make([]byte, maxChunk)
	for _, e := range f.Extents {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:e[3]*pageSize]
		n, err := r.ReadAt(b, e[0]*pageSize)
		if err != nil && err != io.EOF {
			return err
		}
		clear(b[n:])
		for i := range e[3] {
			k.pages[sha256.Sum256(b[i*pageSize:][:pageSize])] = place{int32(e[1]), int32(e[2] + i)}
		}
	}
	return nil
}

// eachPage calls f with the pages of a file. The last one is completed with zeros.
func (f source) eachPage(ctx context.Context, do func(i int, page []byte) error) error {
	buf := make([]byte, 1<<20)
	for at := int64(0); at < f.bytes; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), f.bytes-at)], at)
		if err != nil && !(err == io.EOF && at+int64(n) == f.bytes) {
			return err
		}
		clear(buf[n:])
		for i := 0; i < n; i += pageSize {
			if err := do(int(at+int64(i))/pageSize, buf[i:i+pageSize]); err != nil {
				return err
			}
		}
	}
	return nil
}

var zeroPage [pageSize]byte

// plan finds the pages of zeros, and those that the parent has.
func (w *writer) plan(ctx context.Context, from known) error {
	used := make([]int64, len(from.m.Chunks))
	for _, f := range w.files {
		err := f.eachPage(ctx, func(i int, page []byte) error {
			f.pages[i] = added
			if bytes.Equal(page, zeroPage[:]) {
				f.pages[i] = zeros
				return nil
			}
			w.saved.Bytes += pageSize
			if len(from.pages) == 0 {
				return nil
			}
			if p, ok := from.pages[sha256.Sum256(page)]; ok {
				f.pages[i] = p
				used[p.chunk]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	// A chunk of which little is used is not: who opens the artefact reads whole chunks.
	for _, f := range w.files {
		for i, p := range f.pages {
			if p.chunk >= 0 && used[p.chunk] < from.m.Chunks[p.chunk].Pages/4 {
				f.pages[i] = added
			} else if p.chunk >= 0 {
				w.saved.Reused += pageSize
			}
		}
	}
	return nil
}

// store stores the pages that were added.
func (w *writer) store(ctx context.Context, from known) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, workers)
	var work sync.WaitGroup
	defer work.Wait()
	flush := func() error {
		if len(w.next) == 0 {
			return w.failed()
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		number, plain := w.nextNumber, w.next
		w.next = nil
		work.Go(func() {
			defer func() { <-slots }()
			if err := w.chunk(ctx, number, plain); err != nil {
				w.mu.Lock()
				if w.err == nil {
					w.err = err
				}
				w.mu.Unlock()
				cancel()
			}
		})
		return w.failed()
	}
	err := w.eachAdded(ctx, from, flush)
	if err == nil {
		err = flush()
	}
	work.Wait()
	if ferr := w.failed(); ferr != nil {
		return ferr // err is what followed
	}
	return err
}

// eachAdded collects the pages that are to be stored, and calls flush for each full chunk. It makes the extents of all files.
func (w *writer) eachAdded(ctx context.Context, from known, flush func() error) error {
	for n, f := range w.files {
		err := f.eachPage(ctx, func(i int, page []byte) error {
			p := f.pages[i]
			switch {
			case p == zeros:
			case p == added:
				if w.next == nil {
					w.next, w.nextNumber = make([]byte, 0, w.s.cfg.ChunkBytes), w.number(chunk{})
				}
				w.m.Files[n].extend(int64(i), w.nextNumber, int64(len(w.next)/pageSize))
				if w.next = append(w.next, page...); len(w.next) == cap(w.next) {
					return flush()
				}
			default:
				c := from.m.Chunks[p.chunk]
				number, ok := w.chunks[c.SHA256]
				if !ok {
					number = w.number(c)
					w.chunks[c.SHA256] = number
				}
				w.m.Files[n].extend(int64(i), number, int64(p.at))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// number adds a chunk to the manifest and returns its number.
func (w *writer) number(c chunk) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Chunks = append(w.m.Chunks, c)
	return int64(len(w.m.Chunks) - 1)
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// extend adds a page to a file.
func (f *file) extend(page, number, at int64) {
	if n := len(f.Extents); n > 0 {
		e := &f.Extents[n-1]
		if e[0]+e[3] == page && e[1] == number && e[2]+e[3] == at {
			e[3]++
			return
		}
	}
	f.Extents = append(f.Extents, extent{page, number, at, 1})
}

// chunk stores a chunk.
func (w *writer) chunk(ctx context.Context, number int64, plain []byte) error {
	object, digest := w.s.seal(plain, chunkKind)
	if err := w.s.put(ctx, w.s.chunkBlob(digest), object); err != nil {
		return err
	}
	w.mu.Lock()
	c := &w.m.Chunks[number]
	*c = chunk{digest, int64(len(object)), int64(len(plain) / pageSize)}
	w.saved.Stored += c.Bytes
	w.mu.Unlock()
	return w.s.pass("chunk")
}

// finish stores the manifest.
func (w *writer) finish(ctx context.Context) (Saved, error) {
	b, err := json.Marshal(w.m)
	if err != nil {
		return Saved{}, err
	}
	if len(b) > maxManifest {
		return Saved{}, api.Errorf(api.KindUnsupported, "%s is too large for the archive: its manifest would have %d bytes", w.m.Label, len(b))
	}
	object, digest := w.s.seal(b, manifestKind)
	if err := w.s.pass("manifest"); err != nil {
		return Saved{}, err
	}
	// Later, chunks that it shares with its parent may be removed.
	if err := ctx.Err(); err != nil {
		return Saved{}, context.Cause(ctx)
	}
	w.saved.Ref = Ref(digest)
	w.saved.Stored += int64(len(object))
	if err := w.s.put(ctx, w.s.manifestBlob(w.saved.Ref), object); err != nil {
		return Saved{}, err
	}
	return w.saved, w.s.pass("stored")
}
