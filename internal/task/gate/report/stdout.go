package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// A reader takes a command's stdout line by line, gives the text that a person sees in its
// place, and makes a report of it.
type reader interface {
	line(text []byte, whole bool) []byte
	report() Report
}

// goTest reads the events of "go test -json". They are written by the go command, which
// reads its test binaries' output through pipes.
type goTest struct {
	r Report
	// open are tests and packages that began, and whether they printed how they ended:
	// the go command takes an exit code of 0 for the passing of what runs.
	open map[string]bool
	// held is what tests printed that have not ended. A person sees it where they fail,
	// as without -json.
	held map[string][]byte
	size int
}

// Bounds of the tests that have not ended, and of what is held of them. What comes then is
// shown at once.
const (
	maxOpen = 10_000
	maxHeld = 4 << 20
)

func (g *goTest) line(text []byte, whole bool) []byte {
	var e struct{ Action, Package, ImportPath, Test, Output string }
	if !whole || len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &e) != nil || e.Action == "" {
		return append(text, '\n')
	}
	g.r.Began = true
	name := short(strings.TrimSuffix(e.Package+"."+e.Test, "."))
	_, running := g.open[name]
	switch e.Action {
	case "build-output":
		return []byte(e.Output)
	case "output":
		if running && goPassed(e.Test, e.Output) {
			g.open[name] = true
			return nil
		}
		if e.Test == "" || !running || g.size+len(e.Output) > maxHeld {
			return []byte(e.Output)
		}
		if !strings.HasPrefix(e.Output, "=== ") {
			g.held[name] = append(g.held[name], e.Output...)
			g.size += len(e.Output)
		}
	case "start", "run":
		if !running && len(g.open) < maxOpen {
			g.open[name] = false
		}
	case "pass":
		if !g.open[name] {
			g.r.Lost = note(g.r.Lost, name)
		} else if e.Test != "" {
			g.r.add(name, Passed)
		}
		delete(g.open, name)
		g.release(name)
	case "fail":
		delete(g.open, name)
		if e.Test != "" {
			g.r.add(name, Failed)
			return g.release(name)
		}
		g.r.add(name, Broken)
		var text []byte
		for _, test := range slices.Sorted(maps.Keys(g.held)) { // those that a panic ended
			if strings.HasPrefix(test, e.Package+".") {
				text = append(text, g.release(test)...)
			}
		}
		return text
	case "skip":
		if e.Test != "" {
			g.r.add(name, Skipped)
		}
		delete(g.open, name)
		g.release(name)
	case "build-fail":
		g.r.add(e.ImportPath, Broken)
	}
	return nil
}

// release returns what a test printed, and forgets it.
func (g *goTest) release(name string) []byte {
	text := g.held[name]
	delete(g.held, name)
	g.size -= len(text)
	return text
}

// goPassed reports whether a line is what package testing prints when a test, or all tests of
// a package, passed.
func goPassed(test, output string) bool {
	if test == "" {
		return output == "PASS\n"
	}
	return strings.HasPrefix(strings.TrimLeft(output, " "), "--- PASS: "+test+" (")
}

func (g *goTest) report() Report {
	g.r.Ended = g.r.Began // the go command's own exit code reports whether it came to its end
	for name := range g.open {
		g.r.Lost = note(g.r.Lost, name)
	}
	return g.r
}

// cargo reads the lines that Rust's test programs print.
type cargo struct {
	r       Report
	crate   string
	running int // programs that began and did not end
}

var (
	cargoCrate  = lazyregexp.New(`^\s+(?:Running|Doc-tests) (?:unittests )?(\S+)`)
	cargoBegins = lazyregexp.New(`^running \d+ tests?$`)
	cargoTest   = lazyregexp.New(`^test (.+) \.\.\. (ok|FAILED|ignored)(?:,.*)?$`)
	cargoEnds   = lazyregexp.New(`^test result: (?:ok|FAILED)\. \d+ passed`)
)

func (c *cargo) line(text []byte, _ bool) []byte {
	switch {
	case cargoBegins.Match(text):
		c.running++
		c.r.Began = true
	case cargoEnds.Match(text):
		c.running--
	default:
		if m := cargoCrate.FindSubmatch(text); m != nil {
			c.crate = string(m[1])
		} else if m := cargoTest.FindSubmatch(text); m != nil {
			c.r.add(c.crate+" "+string(m[1]), map[string]Outcome{"ok": Passed, "FAILED": Failed, "ignored": Skipped}[string(m[2])])
		}
	}
	return append(text, '\n')
}

func (c *cargo) report() Report {
	c.r.Ended = c.r.Began && c.running == 0
	return c.r
}

// tap reads the Test Anything Protocol, at its top level.
type tap struct {
	r    Report
	seen int
	plan int // of all documents together
}

var (
	tapTest = lazyregexp.New(`^(not )?ok\b(?: (\d+))?(?: -)? ?([^#]*)(?:# *(?i:(skip|todo)))?`)
	tapPlan = lazyregexp.New(`^1\.\.(\d+)`)
)

func (t *tap) line(text []byte, _ bool) []byte {
	if m := tapPlan.FindSubmatch(text); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			t.plan += n // programs may print one after another
		}
	} else if m := tapTest.FindSubmatch(text); m != nil {
		t.r.Began = true
		t.seen++
		name := strings.TrimSpace(string(m[3]))
		if name == "" {
			name = strconv.Itoa(t.seen)
		}
		o := Passed
		switch directive := strings.ToLower(string(m[4])); {
		case directive == "skip":
			o = Skipped
		case directive == "todo":
			o = Expected
		case len(m[1]) > 0:
			o = Failed
		}
		t.r.add(name, o)
	} else if bytes.HasPrefix(text, []byte("Bail out!")) {
		t.r.add("Bail out!", Failed)
	}
	return append(text, '\n')
}

func (t *tap) report() Report {
	t.r.Ended = t.plan == t.seen
	t.r.Began = t.r.Began && t.plan > 0
	return t.r
}
