package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// event is one line of test2json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// id identifies a test, or a package if Test is empty.
type id struct{ Package, Test string }

// top reports whether it is a test function and not a subtest.
func (i id) top() bool { return i.Test != "" && !strings.Contains(i.Test, "/") }

func (i id) String() string {
	pkg := strings.TrimPrefix(i.Package, "hortus.dev/")
	if i.Test == "" {
		return pkg
	}
	return pkg + " " + i.Test
}

// outcome is the result of all runs of a test or a package.
type outcome struct {
	id
	took   time.Duration // of its longest run
	failed int           // runs
	passed bool          // in its last run
	// skipped is true if its last run was skipped; why is the reason.
	skipped bool
	why     string
	// marked is true if the testing package itself printed the end of its last run: a
	// test that ends the process with code 0 is a pass for go test.
	marked bool
	// said is the output of the current run, and failure that of the first failed run;
	// both are truncated.
	said, failure string
	// inner is the number of failed tests in the current run of a package. outer is the
	// output of a run that failed although no test failed, for example because the tests
	// left a process.
	inner int
	outer string
}

// maxOutput is the size, in bytes, above which no more output of a test's run is kept.
const maxOutput = 8 << 10

// run is one run of tests.
type run struct {
	order []*outcome // in the order of their first event
	by    map[id]*outcome
}

// read reads the events of one run, including those of repeated tests.
func read(r io.Reader) (*run, error) {
	all := &run{by: map[id]*outcome{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d is not an event of go test -json: %w", n, err)
		}
		if e.Package != "" {
			all.add(e)
		}
	}
	return all, lines.Err()
}

func (r *run) add(e event) {
	key := id{e.Package, e.Test}
	o := r.by[key]
	if o == nil {
		o = &outcome{id: key}
		r.by[key], r.order = o, append(r.order, o)
	}
	switch e.Action {
	case "run", "start":
		o.said, o.marked, o.inner = "", false, 0
	case "output":
		line := strings.TrimSpace(e.Output)
		for _, end := range []string{"--- PASS: ", "--- FAIL: ", "--- SKIP: "} {
			o.marked = o.marked || strings.HasPrefix(line, end+e.Test+" ")
		}
		if len(o.said) < maxOutput {
			o.said += e.Output
		}
	case "pass", "fail", "skip":
		o.took = max(o.took, time.Duration(e.Elapsed*float64(time.Second)))
		o.passed, o.skipped = e.Action == "pass", e.Action == "skip"
		switch e.Action {
		case "fail":
			if o.failed++; o.failed == 1 {
				o.failure = o.said
			}
			if pkg := r.by[id{Package: e.Package}]; e.Test != "" && pkg != nil {
				pkg.inner++
			} else if o.inner == 0 {
				o.outer = o.said
			}
		case "skip":
			o.why = reason(o.said)
		}
	}
}

// reason returns the output of a skipped test, without the lines and positions that the
// testing package adds, and without a script's log.
func reason(said string) string {
	var words []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if at, rest, ok := strings.Cut(line+" ", ": "); ok && strings.Contains(at, ".go:") {
			line = strings.TrimSpace(rest)
		}
		if line == "WORK=$WORK" {
			break // the first line of a script's log
		}
		if line != "" {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}
