package tool

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// Bounds of view.
const (
	viewLines   = 400 // when no range is given
	viewBytes   = 10_000
	viewEntries = 500
	maxFile     = 2 << 20 // what is read as a whole, and edited
)

const viewAbout = `Read a text file with line numbers, list a directory, show an image, or read saved output such as "output:3". View a file before you change it.`

// view makes the tool. With once it does not show again what an earlier result shows.
func (s *Set) view(once bool) *tool {
	run := func(ctx context.Context, in args) (loop.Result, error) { return s.runView(ctx, in, once) }
	return &tool{name: "view", about: viewAbout, run: run, forget: s.seen.forget, input: fields{
		{name: "path", kind: "string", need: true, doc: "What to read."},
		{name: "start_line", kind: "integer", min: 1, max: anyLine, doc: "First line, from 1."},
		{name: "end_line", kind: "integer", min: 1, max: anyLine, doc: "Last line, inclusive."},
	}}
}

func (s *Set) runView(ctx context.Context, in args, once bool) (loop.Result, error) {
	from, to := in.num("start_line", 1), in.num("end_line", 0)
	if !in.has("end_line") {
		to = from + viewLines - 1
	}
	if to < from {
		return loop.Result{}, teach("start_line %d is greater than end_line %d", from, to)
	}
	p := in.str("path")
	if strings.HasPrefix(p, outputPrefix) && s.cfg.Keep != nil {
		r, err := s.cfg.Keep.Open(p)
		if err != nil {
			return loop.Result{}, err
		}
		defer r.Close()
		res, _, err := viewStream(p, r, from, to)
		return res, err
	}
	w, err := s.where(p)
	if err != nil {
		return loop.Result{}, err
	}
	content, err := s.cfg.Sandbox.ReadFile(ctx, w.abs, maxFile)
	switch api.KindOf(err) {
	case "":
	case api.KindExhausted:
		return s.viewLarge(ctx, w, from, to)
	case api.KindInvalid:
		if res, derr := s.viewDir(ctx, w); derr != nil || res.Text != "" {
			return res, derr
		}
		return loop.Result{}, err
	default:
		return loop.Result{}, err
	}
	if res, ok := viewImage(w, content); ok {
		if !res.Failed && s.shown.Add(1) > maxImages {
			return failed(res.Short+", too many", "%s The limit of %d images is reached. Inspect it with shell.", res.Text, maxImages), nil
		}
		return res, nil
	}
	if what := binaryKind(content); what != "" && bytes.IndexByte(content, 0) >= 0 {
		return failed("view "+w.say+": binary", "%s is not a text file: %s, %d bytes. Inspect it with shell (file, od, strings).", w.say, what, len(content)), nil
	}
	s.seen.add(w.abs)
	if len(content) == 0 {
		return loop.Result{Text: w.say + " is empty.", Short: "view " + w.say + ": empty"}, nil
	}
	res, last, err := viewStream(w.say, bytes.NewReader(content), from, to)
	if err == nil && bytes.HasPrefix(content, []byte(bom)) {
		res.Text += "\n[the file begins with a byte order mark; edits preserve it]"
	}
	if once && err == nil && !res.Failed {
		res = s.seen.once(w, content, res, from, last)
	}
	return res, err
}

// viewStream shows lines of a text that is read through, in bounded memory. Last is the last of them.
func viewStream(name string, r io.Reader, from, to int64) (res loop.Result, last int64, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var shown []string
	var n int64
	size, end, crlf := 0, false, false
	for {
		line, more, err := readLine(br, 4*maxShownLine)
		if err == io.EOF {
			end = true
			break
		}
		if err != nil {
			return loop.Result{}, 0, api.Errorf(api.KindInternal, "read %s: %w", name, err)
		}
		n++
		if n < from || n > to || size > viewBytes {
			continue
		}
		crlf = crlf || strings.HasSuffix(line, "\r")
		if more > 0 {
			line += strings.Repeat(".", min(more, 3))
		}
		if n == 1 {
			line = strings.TrimPrefix(line, bom)
		}
		size += len(line) + 8
		shown = append(shown, line)
	}
	if n == 0 && end {
		return loop.Result{Text: name + " is empty.", Short: "view " + name + ": empty"}, 0, nil
	}
	if from > n {
		return failed("view "+name+": past its end", "%s has %d lines; start_line is %d.", name, n, from), 0, nil
	}
	text, count := numbered(shown, int(from), viewBytes)
	last = from + int64(count) - 1
	switch {
	case last < n && last < to:
		text += fmt.Sprintf("[lines %d to %d of %d; continue with start_line %d]", from, last, n, last+1)
	case last < n:
		text += fmt.Sprintf("[lines %d to %d of %d]", from, last, n)
	default:
		text += fmt.Sprintf("[end of file: %d lines]", n)
	}
	if crlf {
		text += "\n[the lines end with CR LF; edits preserve it]"
	}
	return loop.Result{Text: text, Short: fmt.Sprintf("view %s, lines %d-%d of %d", name, from, last, n)}, last, nil
}

// readLine reads one line and keeps its first max bytes; more counts the others.
func readLine(r *bufio.Reader, max int) (line string, more int, err error) {
	var b []byte
	for {
		p, err := r.ReadSlice('\n')
		whole := err == nil
		if whole {
			p = p[:len(p)-1]
		}
		n := min(len(p), max-len(b))
		b = append(b, p[:n]...)
		more += len(p) - n
		switch {
		case whole:
			return string(b), more, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(b) > 0:
			return string(b), more, nil
		default:
			return "", 0, err
		}
	}
}

// viewLarge shows lines of a file that is not read as a whole.
func (s *Set) viewLarge(ctx context.Context, w where, from, to int64) (loop.Result, error) {
	const text = `wc -c <"$3"; sed -n -e "$1,$2p" -e "$2q" -- "$3" | head -c 300000`
	res, err := s.script(ctx, "", text, strconv.FormatInt(from, 10), strconv.FormatInt(to, 10), w.arg)
	if err != nil {
		return loop.Result{}, err
	}
	size, part, _ := bytes.Cut(res.out, []byte("\n"))
	if bytes.IndexByte(part, 0) >= 0 {
		return failed("view "+w.say+": binary", "%s is not a text file: %s bytes of binary data. Inspect it with shell (file, od, strings).", w.say, visible(clip(string(size), 20))), nil
	}
	s.seen.add(w.abs)
	got := lines(string(part))
	if len(got) == 0 {
		return failed("view "+w.say+": past its end", "%s has no line %d, or reading it timed out. It has %s bytes. Use search or shell.", w.say, from, visible(clip(string(size), 20))), nil
	}
	out, count := numbered(got, int(from), viewBytes)
	last := from + int64(count) - 1
	out += fmt.Sprintf("[large file, %s bytes: lines %d to %d; continue with start_line %d, or use search]", visible(clip(string(size), 20)), from, last, last+1)
	return loop.Result{Text: out, Short: fmt.Sprintf("view %s, lines %d-%d", w.say, from, last)}, nil
}

// viewDir lists a directory. The text is empty for what is none.
func (s *Set) viewDir(ctx context.Context, w where) (loop.Result, error) {
	// A listing with sizes needs GNU find; without it there are names alone.
	const text = `[ -d "$1" ] || exit 9
cd -- "$1" || exit 8
find . -mindepth 1 -maxdepth 1 -printf '%y%s %f\0' 2>/dev/null || {
	for f in * .*; do case $f in .|..) ;; *) if [ -d "$f" ]; then printf 'd0 %s\0' "$f"; elif [ -e "$f" ]; then printf 'f- %s\0' "$f"; fi ;; esac; done; }`
	res, err := s.script(ctx, "", text, w.arg)
	if err != nil || res.exit.Code == 9 {
		return loop.Result{}, err
	}
	if res.exit.Code != 0 && len(res.out) == 0 {
		return failed("view "+w.say+": failed", "%s cannot be listed: %s", w.say, visible(clip(string(res.errs), 300))), nil
	}
	var names []string
	for entry := range strings.SplitSeq(string(res.out), "\x00") {
		head, name, ok := strings.Cut(entry, " ")
		if !ok || head == "" {
			continue
		}
		name = visible(clip(name, 255))
		switch head[0] {
		case 'd':
			names = append(names, name+"/")
		case 'l':
			names = append(names, name+"@  (a symbolic link)")
		case 'f':
			if size := head[1:]; size != "-" {
				name += "  " + visible(clip(size, 20)) + " bytes"
			}
			names = append(names, name)
		default:
			names = append(names, name+"  (not a regular file)")
		}
	}
	slices.Sort(names)
	all := len(names)
	out := strings.Join(names[:min(all, viewEntries)], "\n")
	if len(out) > viewBytes {
		out = clip(out, viewBytes)
	}
	note := fmt.Sprintf("\n[%d entries in %s]", all, w.say)
	if all > viewEntries || res.cut {
		note = fmt.Sprintf("\n[%d entries in %s, the first %d shown; use find]", all, w.say, min(all, viewEntries))
	}
	return loop.Result{Text: strings.TrimPrefix(out+note, "\n"), Short: fmt.Sprintf("view %s/, %d entries", w.say, all)}, nil
}

const (
	// maxImage is the largest file that is given to a model as an image, in bytes, and maxSide its longest side, in pixels.
	maxImage = 1536 << 10
	maxSide  = 8000
	// maxImages is the most images that a set gives: each one is kept in the history and in a journal.
	maxImages = 20
)

// picture is an image file, as far as its header tells.
type picture struct {
	kind, mime    string
	width, height int
}

// readPicture reads the header of an image file, and no pixels. ok is false for what is no image of a known kind; the
// file is untrusted.
func readPicture(b []byte) (p picture, ok bool) {
	var c image.Config
	var err error
	r := bytes.NewReader(b)
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		p.kind, p.mime = "PNG", "image/png"
		c, err = png.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		p.kind, p.mime = "JPEG", "image/jpeg"
		c, err = jpeg.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		p.kind, p.mime = "GIF", "image/gif"
		c, err = gif.DecodeConfig(r)
	case len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		p.kind, p.mime = "WebP", "image/webp"
		c.Width, c.Height = webpSize(b)
	default:
		return p, false
	}
	p.width, p.height = c.Width, c.Height
	return p, err == nil && p.width > 0 && p.height > 0
}

// webpSize reads the size in the first chunk of a WebP file of at least 30 bytes; 0 for an unknown one.
func webpSize(b []byte) (width, height int) {
	switch string(b[12:16]) {
	case "VP8 ": // behind the frame's tag and its start code
		if b[23] == 0x9d && b[24] == 0x01 && b[25] == 0x2a {
			return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
		}
	case "VP8L":
		if b[20] == 0x2f {
			n := binary.LittleEndian.Uint32(b[21:])
			return int(n&0x3fff) + 1, int(n>>14&0x3fff) + 1
		}
	case "VP8X":
		return 1 + int(b[24]) + int(b[25])<<8 + int(b[26])<<16, 1 + int(b[27]) + int(b[28])<<8 + int(b[29])<<16
	}
	return 0, 0
}

// viewImage gives an image to the model, if the file is one.
func viewImage(w where, b []byte) (loop.Result, bool) {
	p, ok := readPicture(b)
	if !ok {
		return loop.Result{}, false
	}
	about := fmt.Sprintf("%s is a %s image of %d x %d pixels, %d bytes.", w.say, p.kind, p.width, p.height, len(b))
	short := fmt.Sprintf("view %s: image, %d x %d", w.say, p.width, p.height)
	switch {
	case len(b) > maxImage:
		return failed(short+", too large", "%s It is too large to view: the maximum is %d bytes. Reduce it with shell.", about, maxImage), true
	case max(p.width, p.height) > maxSide:
		return failed(short+", too large", "%s It is too large to view: the maximum is %d pixels for each side. Reduce it with shell.", about, maxSide), true
	}
	return loop.Result{Text: about, Short: short, Images: []model.Image{{Type: p.mime, Data: b}}}, true
}

// fewBytes is the shortest text of a file that is not shown again.
const fewBytes = 1000

// viewLog has the files that the model has read or written, by cleaned path.
type viewLog struct {
	mu    sync.Mutex
	files map[string]sight
}

// sight is what a model has read of a file.
type sight struct {
	sum      [sha256.Size]byte // of the content
	from, to int64             // the lines that results show; to is 0 for none
	pointed  bool              // the last result pointed at an earlier one
}

func (s *viewLog) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]sight{}
	}
	s.files[path] = s.files[path]
}

func (s *viewLog) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[path]
	return ok
}

// again reports whether results show these lines of the content already. It is true once: a model that asks again after that
// reads them.
func (s *viewLog) again(path string, content []byte, from, to int64) bool {
	sum := sha256.Sum256(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f.sum != sum {
		f = sight{sum: sum}
	}
	f.pointed = !f.pointed && f.to > 0 && f.from <= from && to <= f.to
	if !f.pointed {
		if f.to > 0 && from <= f.to+1 && f.from <= to+1 {
			from, to = min(from, f.from), max(to, f.to)
		}
		f.from, f.to = from, to
	}
	s.files[path] = f
	return f.pointed
}

// forget forgets what results show: they may be removed from the history.
func (s *viewLog) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.files {
		s.files[path] = sight{}
	}
}

// once replaces the lines of a file by a reference, if an earlier result shows them.
func (s *viewLog) once(w where, content []byte, res loop.Result, from, last int64) loop.Result {
	if len(res.Text) < fewBytes || !s.again(w.abs, content, from, last) {
		return res
	}
	return loop.Result{
		Text:  fmt.Sprintf("[%s did not change: an earlier result shows lines %d to %d. To read them here, call view again.]", w.say, from, last),
		Short: res.Short + ", shown before",
	}
}

// maxPrinted is how many outputs of commands are compared.
const maxPrinted = 50

// printLog has the last long outputs of commands, by their sums. Its methods are for the goroutine of the calls.
type printLog struct {
	last []output
}

type output struct {
	sum     [sha256.Size]byte
	line    string // the command
	pointed bool   // the last result with this output pointed at an earlier one
}

func (p *printLog) forget() { p.last = nil }

// once replaces a long output by a reference, if an earlier result shows the same. If the output comes again after that, it is
// shown.
func (p *printLog) once(line, text string) string {
	if len(text) < fewBytes {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	for i := range p.last {
		if o := &p.last[i]; o.sum == sum {
			if o.pointed = !o.pointed; o.pointed {
				return fmt.Sprintf("[same output as the earlier command: %s]\n", o.line)
			}
			o.line = oneLine(line, 80)
			return text
		}
	}
	p.last = append(p.last, output{sum: sum, line: oneLine(line, 80)})
	if n := len(p.last) - maxPrinted; n > 0 {
		p.last = p.last[n:]
	}
	return text
}
