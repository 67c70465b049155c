package tool

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// document is a text file as an editor sees it.
type document struct {
	text string // without its mark
	bom  bool   // it begins with UTF-8's byte order mark
}

const bom = "\uFEFF"

// parseDocument reads a file's content; why says what is against editing it.
func parseDocument(b []byte) (d document, why string) {
	if what := binaryKind(b); what != "" {
		return d, what
	}
	s := string(b)
	if rest, ok := strings.CutPrefix(s, bom); ok {
		return document{rest, true}, ""
	}
	return document{text: s}, ""
}

func (d document) bytes() []byte {
	if d.bom {
		return []byte(bom + d.text)
	}
	return []byte(d.text)
}

// crlf reports whether every line of it ends with CR LF.
func (d document) crlf() bool {
	n := strings.Count(d.text, "\n")
	return n > 0 && strings.Count(d.text, "\r\n") == n
}

// toCRLF ends each line of s with CR LF.
func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// binaryKind names what a file is that is no text, or is empty. Text is UTF-8
// without NUL.
func binaryKind(b []byte) string {
	for _, m := range []struct{ magic, what string }{
		{"\x7fELF", "an ELF program"}, {"\x89PNG\r\n", "a PNG image"}, {"\xff\xd8\xff", "a JPEG image"},
		{"GIF8", "a GIF image"}, {"PK\x03\x04", "a ZIP archive"}, {"\x1f\x8b", "gzip data"},
		{"%PDF-", "a PDF document"}, {"SQLite format 3\x00", "an SQLite database"}, {"\x28\xb5\x2f\xfd", "zstd data"},
		{"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"},
	} {
		if bytes.HasPrefix(b, []byte(m.magic)) {
			return m.what
		}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return "binary data"
	}
	if !utf8.Valid(b) {
		return "text in an encoding other than UTF-8"
	}
	return ""
}

// lines splits a text at its line breaks, without them. A last line break begins
// no line.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// maxShownLine is how much of one line is shown, in bytes.
const maxShownLine = 2000

// numbered shows lines with their numbers from first on, at most max bytes and at
// least one; n is how many were shown.
func numbered(all []string, first, max int) (text string, n int) {
	var b strings.Builder
	for i, l := range all {
		l = strings.TrimSuffix(l, "\r")
		shown := visible(l)
		if len(shown) > maxShownLine {
			short := clip(shown, maxShownLine)
			shown = fmt.Sprintf("%s [%d more bytes in this line]", short, len(shown)-len(short)+3)
		}
		line := fmt.Sprintf("%d\t%s\n", first+i, shown)
		if i > 0 && b.Len()+len(line) > max {
			break
		}
		b.WriteString(line)
		n++
	}
	return b.String(), n
}

// changed counts the lines that differ between two texts: those after their
// common beginning and before their common end. First is the first of them in
// after, from 0.
func changed(before, after string) (added, removed, first int) {
	a, b := lines(before), lines(after)
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	i, j := len(a), len(b)
	for i > first && j > first && a[i-1] == b[j-1] {
		i--
		j--
	}
	return j - first, i - first, first
}
