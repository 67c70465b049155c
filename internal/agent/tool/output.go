package tool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"hortus.dev/api"
)

// Bounds of what a model reads of one output, in characters.
const (
	maxText  = 10_000
	headText = 5_000
	tailText = 5_000
)

// capture takes a command's output in bounded memory: its text whole while it is
// short, its beginning and end once it is long, and then the whole in a store.
type capture struct {
	clean cleaner
	store OutputStore

	raw   int64 // bytes as they were printed
	chars int64 // characters of the clean text
	long  bool
	head  []byte // everything while it is not long
	tail  []byte
	whole Output // nil where nothing is kept
	name  string
	note  string // why nothing is kept
}

func newCapture(store OutputStore) *capture {
	c := &capture{store: store}
	c.clean.out = c.add
	return c
}

// Write takes raw output. It never fails: a store that does is said in the text.
func (c *capture) Write(p []byte) (int, error) {
	c.raw += int64(len(p))
	return c.clean.Write(p)
}

func (c *capture) add(text []byte) {
	c.chars += int64(utf8.RuneCount(text))
	if !c.long {
		c.head = append(c.head, text...)
		if c.chars <= maxText {
			return
		}
		c.long = true
		c.keep(c.head)
		cut := lineBefore(c.head, runeOffset(c.head, headText))
		c.tail = append(c.tail, c.head[cut:]...)
		c.head = c.head[:cut]
	} else {
		c.keep(text)
		c.tail = append(c.tail, text...)
	}
	const most = tailText * utf8.UTFMax
	if len(c.tail) > 4*most {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-most:]...)
	}
}

// keep writes to the store.
func (c *capture) keep(text []byte) {
	var err error
	if c.whole == nil {
		if c.store == nil || c.note != "" {
			return
		}
		if c.whole, err = c.store.Create(); err != nil {
			c.whole, c.note = nil, "could not be saved"
			return
		}
		c.name = c.whole.Name()
	}
	if _, err = c.whole.Write(text); err != nil {
		c.whole.Close()
		c.whole, c.name, c.note = nil, "", "could not be saved"
	}
}

// end closes the store's side and gives the text to read. It ends with a line
// break unless it is empty.
func (c *capture) end() string {
	c.clean.end()
	if c.whole != nil {
		if c.whole.Close() != nil {
			c.name, c.note = "", "could not be saved"
		}
		c.whole = nil
	}
	if !c.long {
		return ended(string(c.head))
	}
	n := utf8.RuneCount(c.tail)
	from := 0
	if n > tailText {
		from = lineAfter(c.tail, runeOffset(c.tail, n-tailText))
	}
	tail := c.tail[from:]
	cut := c.chars - int64(utf8.RuneCount(c.head)) - int64(utf8.RuneCount(tail))
	rest := fmt.Sprintf("the full output is %s; read it with view or search", c.name)
	if c.name == "" {
		rest = "the rest " + orElse(c.note, "is not saved")
	}
	return fmt.Sprintf("%s[... %d characters truncated; %s ...]\n%s", ended(string(c.head)), cut, rest, ended(validTail(tail)))
}

// validTail drops the rest of a rune that the bound cut through.
func validTail(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return string(b)
}

func ended(s string) string {
	if s != "" && s[len(s)-1] != '\n' {
		s += "\n"
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// runeOffset returns the byte at which the n-th rune begins.
func runeOffset(b []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(b); n-- {
		_, size := utf8.DecodeRune(b[i:])
		i += size
	}
	return i
}

// lineBefore moves a cut back to the end of a line, if one is near enough.
func lineBefore(b []byte, at int) int {
	if i := bytes.LastIndexByte(b[:at], '\n'); i >= at/2 {
		return i + 1
	}
	return at
}

// lineAfter moves a cut on to the beginning of a line, if one is near enough.
func lineAfter(b []byte, at int) int {
	if at > 0 && b[at-1] == '\n' {
		return at
	}
	if i := bytes.IndexByte(b[at:], '\n'); i >= 0 && i < (len(b)-at)/2 {
		return at + i + 1
	}
	return at
}

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
