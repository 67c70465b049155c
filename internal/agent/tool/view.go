package tool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
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
