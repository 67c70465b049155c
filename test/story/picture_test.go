package story

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"hortus.dev/test/tier"
)

var update = flag.Bool("update", false, "write "+pictureFile)

const pictureFile = "../../docs/pictures/run.svg"

// The size of the terminal, in characters. The picture is as high as its text.
const columns, rows = 104, 40

// TestPicture runs the commands of README's picture at a terminal, and wants what they print to become a picture of it that moves.
// go test ./test/story -run TestPicture -update keeps the picture; docs/pictures/run.svg is a run of the machine that did so.
func TestPicture(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newEmptyGarden(t)
	var r recording
	for _, args := range [][]string{
		{"run", "Write a Python script that computes the mean and median of a list of numbers"},
		{"run", "Run this Python: print(math.sqrt(2))"},
	} {
		typed := "hortus"
		for _, a := range args {
			if strings.Contains(a, " ") {
				a = `"` + a + `"`
			}
			typed += " " + a
		}
		r.record(t, g, typed, args...)
	}
	svg := r.svg()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var text strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
		}
	}
	for _, want := range []string{"median: 13", "verified: exit 0, text output", "NameError", "1.4142135623730951"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture lacks %q: %s", want, text.String())
		}
	}
	if *update {
		if err := os.WriteFile(pictureFile, svg, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recording is what a terminal showed, from the first command on.
type recording struct {
	lines []line
	now   time.Duration
}

// line is one row of the terminal, and when it was there.
type line struct {
	at    time.Duration
	typed bool
	parts []part
}

// part is text in one style: "" for plain, or the number of its SGR sequence.
type part struct{ style, text string }

const (
	perKey = 35 * time.Millisecond // how fast a command is typed
	pause  = 2 * time.Second       // to read what a command printed
	rest   = 6 * time.Second       // before the picture begins again
)

// record runs a command at a terminal, and fails the test if it fails.
func (r *recording) record(t *testing.T, g *garden, typed string, args ...string) {
	t.Helper()
	for n, row := range wrap([]part{{text: "$ " + typed}}) {
		r.lines = append(r.lines, line{at: r.now, typed: true, parts: row})
		if n > 0 {
			r.lines[len(r.lines)-1].at += time.Duration(n*columns) * perKey
		}
	}
	r.now += time.Duration(utf8.RuneCountInString(typed)) * perKey
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(g.env, "TERM=xterm-256color")
	began := time.Now()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	defer tty.Close()
	var all []byte
	b := make([]byte, 4096)
	for {
		n, err := tty.Read(b)
		took := r.now + time.Since(began)
		all = append(all, b[:n]...)
		for {
			text, left, ok := bytes.Cut(all, []byte("\r\n"))
			if !ok {
				break
			}
			all = left
			for _, row := range wrap(styled(t, string(text))) {
				r.lines = append(r.lines, line{at: took, parts: row})
			}
		}
		if err != nil {
			break // the command has ended
		}
	}
	if err := cmd.Wait(); err != nil || len(all) > 0 {
		t.Fatalf("%s: %v, and a line that does not end: %q", typed, err, all)
	}
	r.lines = append(r.lines, line{at: r.now + time.Since(began)})
	r.now += time.Since(began) + pause
}

var escape = regexp.MustCompile(`\x1b\[([0-9;]*)([A-Za-z])|[\x00-\x1f]`)

// colors are the styles that the picture knows.
var colors = map[string]string{"2": "#8b949e", "31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "1": "#ffffff"}

// styled splits a line at its changes of style. A line that moves the cursor, or has an unknown style, fails the test.
func styled(t *testing.T, text string) (parts []part) {
	t.Helper()
	style, from := "", 0
	for _, m := range escape.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > from {
			parts = append(parts, part{style, text[from:m[0]]})
		}
		from = m[1]
		if m[2] < 0 || text[m[4]:m[5]] != "m" {
			t.Fatalf("the picture cannot show %q", text)
		}
		if style = text[m[2]:m[3]]; style == "0" {
			style = ""
		}
		if style != "" && colors[style] == "" {
			t.Fatalf("the picture has no color for style %s of %q", style, text)
		}
	}
	return append(parts, part{style, text[from:]})
}

// wrap breaks a line where the terminal does.
func wrap(parts []part) (lines [][]part) {
	lines = [][]part{nil}
	room := columns
	for _, p := range parts {
		text := []rune(p.text)
		for len(text) > room {
			lines[len(lines)-1] = append(lines[len(lines)-1], part{p.style, string(text[:room])})
			lines, text, room = append(lines, nil), text[room:], columns
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], part{p.style, string(text)})
		room -= len(text)
	}
	return lines
}

// svg draws the terminal. Rows appear when they were there, and commands as they are typed; all of it is shown where motion is not wanted.
func (r *recording) svg() []byte {
	const wide, high, margin = 8.0, 19.0, 16.0
	last := r.lines[:len(r.lines)-1] // without the empty row below the last command
	all := (r.now - pause + rest).Seconds()
	var b bytes.Buffer
	w, h := columns*wide+2*margin, float64(len(last))*high+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">
<title>hortus run: a sentence becomes a program that was run; a program that fails is repaired</title>
<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre }
`, w, h, w, h)
	for _, style := range slices.Sorted(maps.Keys(colors)) {
		fmt.Fprintf(&b, ".s%s { fill: %s }\n", style, colors[style])
	}
	b.WriteString(".cover { transform: translateX(100%) }\n")
	b.WriteString("@media (prefers-reduced-motion: no-preference) {\n")
	for n, l := range last {
		at := l.at.Seconds() / all * 100
		fmt.Fprintf(&b, "#l%d { animation: l%d %.2fs linear infinite } @keyframes l%d { 0%%, %.3f%% { opacity: 0 } %.3f%%, 100%% { opacity: 1 } }\n", n, n, all, n, at, at+0.001)
		if l.typed {
			count := l.length()
			end := (l.at + time.Duration(count)*perKey).Seconds() / all * 100
			fmt.Fprintf(&b, "#c%d { animation: c%d %.2fs infinite } @keyframes c%d { 0%%, %.3f%% { transform: none; animation-timing-function: steps(%d) } %.3f%%, 100%% { transform: translateX(%gpx) } }\n",
				n, n, all, n, at, count, end, float64(count)*wide)
		}
	}
	fmt.Fprintf(&b, "}\n</style>\n<rect width=\"%g\" height=\"%g\" rx=\"8\" fill=\"#0d1117\"/>\n", w, h)
	for n, l := range last {
		if l.length() == 0 {
			continue
		}
		y := margin + (float64(n)+0.75)*high
		fmt.Fprintf(&b, `<g id="l%d"><text x="%g" y="%g" textLength="%g" xml:space="preserve">`, n, margin, y, float64(l.length())*wide)
		for _, p := range l.parts {
			if p.style != "" {
				fmt.Fprintf(&b, `<tspan class="s%s">`, p.style)
			}
			if err := xml.EscapeText(&b, []byte(p.text)); err != nil {
				panic(err) // a buffer takes everything
			}
			if p.style != "" {
				b.WriteString("</tspan>")
			}
		}
		b.WriteString("</text>")
		if l.typed {
			// What is not typed yet is covered. Where nothing moves, the cover is beside the text.
			fmt.Fprintf(&b, `<svg x="%g" y="%g" width="%g" height="%g"><rect id="c%d" class="cover" width="100%%" height="100%%" fill="#0d1117"/></svg>`, margin, y-high*0.75, float64(l.length())*wide, high, n)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (l line) length() (n int) {
	for _, p := range l.parts {
		n += utf8.RuneCountInString(p.text)
	}
	return n
}
