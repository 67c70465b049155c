package tool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"hortus.dev/api"
)

// OutputStore keeps whole outputs by names that it gives itself.
type OutputStore interface {
	// Create begins an output. The name is known at once; it can be opened when
	// it was closed.
	Create() (Output, error)
	// Open reads one. It fails with KindNotFound for a name that is unknown, or
	// whose output had to make room.
	Open(name string) (io.ReadCloser, error)
}

// Output is one that is being written.
type Output interface {
	io.WriteCloser
	Name() string // "output:3"
}

// Defaults of [NewFiles], in bytes.
const (
	DefaultEachOutput = 16 << 20
	DefaultAllOutputs = 128 << 20
)

const outputPrefix = "output:"

// Files keeps outputs as files of one directory. It is safe for concurrent use.
type Files struct {
	root      *os.Root
	each, all int64

	mu    sync.Mutex
	last  int
	first int // the oldest that is still there
	sizes map[int]int64
	total int64
}

// NewFiles keeps outputs below dir, which must be there and be its caller's alone;
// those of an earlier process are found. An output ends at each bytes, and all of them together at all bytes: the oldest
// make room. Zero means the defaults. Close does not remove the files.
func NewFiles(dir string, each, all int64) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the directory for outputs: %w", err)
	}
	if each <= 0 {
		each = DefaultEachOutput
	}
	if all <= 0 {
		all = DefaultAllOutputs
	}
	f := &Files{root: root, each: min(each, all), all: all, first: 1, sizes: map[int]int64{}}
	if err := f.find(); err != nil {
		root.Close()
		return nil, api.Errorf(api.KindInternal, "read the directory for outputs: %w", err)
	}
	return f, nil
}

// find reads which outputs there are.
func (f *Files) find() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	first := 0
	for _, e := range all {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".txt"), "output-")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 1 || e.Name() != fileOf(n) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f.sizes[n] = info.Size()
		f.total += info.Size()
		if f.last = max(f.last, n); first == 0 || n < first {
			first = n
		}
	}
	f.first = max(first, 1)
	return nil
}

// Close releases the directory.
func (f *Files) Close() error { return f.root.Close() }

func fileOf(n int) string { return "output-" + strconv.Itoa(n) + ".txt" }

// Create implements OutputStore.
func (f *Files) Create() (Output, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.last + 1
	file, err := f.root.OpenFile(fileOf(n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f.last, f.sizes[n] = n, 0
	return &fileOutput{files: f, n: n, file: file, buf: bufio.NewWriterSize(file, 64<<10)}, nil
}

// Open implements OutputStore.
func (f *Files) Open(name string) (io.ReadCloser, error) {
	digits, _ := strings.CutPrefix(name, outputPrefix)
	n, err := strconv.Atoi(digits)
	f.mu.Lock()
	_, there := f.sizes[n]
	first, last := f.first, f.last
	f.mu.Unlock()
	if err != nil || !there {
		return nil, api.Errorf(api.KindNotFound, "%s does not exist; saved outputs are %s%d to %s%d", clip(visible(name), 60), outputPrefix, first, outputPrefix, last)
	}
	return f.root.Open(fileOf(n))
}

// reserve counts what output n grows by, and gives how much of it is kept.
func (f *Files) reserve(n, want int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	room := int(min(int64(want), f.each-f.sizes[n]))
	for f.total+int64(room) > f.all && f.first < n {
		f.root.Remove(fileOf(f.first))
		f.total -= f.sizes[f.first]
		delete(f.sizes, f.first)
		f.first++
	}
	f.sizes[n] += int64(room)
	f.total += int64(room)
	return room
}

type fileOutput struct {
	files *Files
	n     int
	file  *os.File
	buf   *bufio.Writer // texts come line by line
	lost  int64
}

func (o *fileOutput) Name() string { return outputPrefix + strconv.Itoa(o.n) }

func (o *fileOutput) Write(p []byte) (int, error) {
	room := o.files.reserve(o.n, len(p))
	o.lost += int64(len(p) - room)
	if _, err := o.buf.Write(p[:room]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *fileOutput) Close() error {
	if o.lost > 0 {
		fmt.Fprintf(o.buf, "\n[%d more bytes were printed and discarded]\n", o.lost)
	}
	return errors.Join(o.buf.Flush(), o.file.Close())
}
