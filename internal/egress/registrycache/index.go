package registrycache

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"hortus.dev/api"
)

// entry is what a request of a zone is answered with. It is a file of JSON.
type entry struct {
	Key    string            `json:"key"`
	URL    string            `json:"url"` // for people
	SHA256 string            `json:"sha256"`
	Size   int64             `json:"size"`
	Header map[string]string `json:"header"`

	used time.Time
}

// kept are the headers that are stored.
var kept = [...]string{"Content-Type", "Etag", "Last-Modified"}

func headerOf(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range kept {
		if v := h.Get(name); v != "" && len(v) < 256 {
			out[name] = v
		}
	}
	return out
}

func (e *entry) header() http.Header {
	h := http.Header{"Content-Length": {strconv.FormatInt(e.Size, 10)}}
	for name, value := range e.Header {
		h.Set(name, value)
	}
	return h
}

// index is what the directory has. The cache's lock protects it, also while files are renamed and
// removed, so that both change together; contents are read and written without it.
type index struct {
	dir     string
	entries map[string]*list.Element // of *entry, by key
	order   *list.List               // the last used first
	objects map[string]int           // entries of each object
	bytes   int64                    // of all objects
}

func (x *index) path(kind, name string) string { return filepath.Join(x.dir, kind, name) }

const maxEntryFile = 16 << 10

// openIndex reads a directory and removes what belongs to no entry.
func openIndex(ctx context.Context, dir string) (index, error) {
	x := index{dir: dir, entries: map[string]*list.Element{}, order: list.New(), objects: map[string]int{}}
	fail := func(err error) (index, error) {
		return x, api.Errorf(api.KindInternal, "open the registry cache: %w", err)
	}
	if err := os.RemoveAll(x.path("partial", "")); err != nil {
		return fail(err)
	}
	for _, kind := range []string{"entries", "objects", "partial"} {
		if err := os.MkdirAll(x.path(kind, ""), 0o700); err != nil {
			return fail(err)
		}
	}
	files, err := os.ReadDir(x.path("entries", ""))
	if err != nil {
		return fail(err)
	}
	var all []*entry
	for _, f := range files {
		if ctx.Err() != nil {
			return x, ctx.Err()
		}
		e, err := x.readEntry(f.Name())
		if err != nil {
			os.Remove(x.path("entries", f.Name()))
			continue
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return a.used.Compare(b.used) })
	for _, e := range all {
		x.add(e)
	}
	objects, err := os.ReadDir(x.path("objects", ""))
	if err != nil {
		return fail(err)
	}
	for _, o := range objects {
		if x.objects[o.Name()] == 0 {
			os.Remove(x.path("objects", o.Name()))
		}
	}
	return x, nil
}

// readEntry reads the file of an entry. Its object must have the right size; its content is
// checked at each hit.
func (x *index) readEntry(name string) (*entry, error) {
	f, err := os.Open(x.path("entries", name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	e := &entry{used: info.ModTime()}
	if err := json.NewDecoder(io.LimitReader(f, maxEntryFile)).Decode(e); err != nil {
		return nil, err
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != sha256.Size || e.Key != name || hex.EncodeToString(sum) != e.SHA256 {
		return nil, errDamaged
	}
	info, err = os.Lstat(x.path("objects", e.SHA256))
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return nil, errDamaged
	}
	return e, nil
}

var errDamaged = api.Errorf(api.KindInternal, "the file is not the one that was stored")

// use returns an entry and makes it the last used one.
func (x *index) use(key string) *entry {
	el := x.entries[key]
	if el == nil {
		return nil
	}
	x.order.MoveToFront(el)
	e := el.Value.(*entry)
	// A failure only changes the order after the next start.
	if now := time.Now(); now.Sub(e.used).Abs() > time.Minute {
		e.used = now
		_ = os.Chtimes(x.path("entries", key), now, now)
	}
	return e
}

// open returns the file of an entry, which the lock does not protect, if its content is the one that was stored.
func (x *index) open(ctx context.Context, e *entry) (*os.File, error) {
	f, err := os.Open(x.path("objects", e.SHA256))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	n, err := io.Copy(h, whileReader{io.LimitReader(f, e.Size+1), ctx})
	if err == nil && (n != e.Size || hex.EncodeToString(h.Sum(nil)) != e.SHA256) {
		err = errDamaged
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// add adds an entry, whose key has none, as the last used one.
func (x *index) add(e *entry) {
	x.entries[e.Key] = x.order.PushFront(e)
	if x.objects[e.SHA256]++; x.objects[e.SHA256] == 1 {
		x.bytes += e.Size
	}
}

// store moves a complete download to its place and adds its entry.
func (x *index) store(e *entry, partial string) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	x.remove(e.Key) // first: it may have the same object
	if err := os.Rename(partial, x.path("objects", e.SHA256)); err != nil {
		return err
	}
	side := x.path("partial", e.Key+".json")
	if err = os.WriteFile(side, append(bytes.TrimSpace(b), '\n'), 0o600); err == nil {
		err = os.Rename(side, x.path("entries", e.Key))
	}
	if err != nil {
		if x.objects[e.SHA256] == 0 {
			os.Remove(x.path("objects", e.SHA256))
		}
		return err
	}
	e.used = time.Now()
	x.add(e)
	return nil
}

// remove removes an entry, and its object if no other entry has it.
func (x *index) remove(key string) {
	el := x.entries[key]
	if el == nil {
		return
	}
	e := x.order.Remove(el).(*entry)
	delete(x.entries, key)
	if x.objects[e.SHA256]--; x.objects[e.SHA256] == 0 {
		delete(x.objects, e.SHA256)
		x.bytes -= e.Size
		os.Remove(x.path("objects", e.SHA256))
	}
	os.Remove(x.path("entries", key))
}

// removeOldest removes the entry that was not used for the longest time.
func (x *index) removeOldest() bool {
	el := x.order.Back()
	if el == nil {
		return false
	}
	x.remove(el.Value.(*entry).Key)
	return true
}

// removeObject removes an object and all entries that have it.
func (x *index) removeObject(sum string) {
	for el := x.order.Front(); el != nil; {
		next := el.Next()
		if e := el.Value.(*entry); e.SHA256 == sum {
			x.remove(e.Key)
		}
		el = next
	}
}
