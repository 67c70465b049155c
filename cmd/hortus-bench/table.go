//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/internal/cli/human"
)

// table prints rows, and tells on stderr what is being measured: one line that changes on a terminal,
// elsewhere a line for each measurement that begins.
type table struct {
	out, progress io.Writer
	tty           bool
	begun, shown  bool
}

func newTable(stdout, stderr io.Writer, quiet bool) *table {
	t := &table{out: stdout, progress: stderr}
	if quiet {
		t.progress = io.Discard
	}
	f, ok := stderr.(*os.File)
	t.tty = ok && !quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	return t
}

func (t *table) row(r figure.Row) {
	const line = "%-48s %-10s %6s %12s %12s  %s\n"
	t.erase()
	if !t.begun {
		t.begun = true
		fmt.Fprintf(t.out, line, "NAME", "BACKEND", "N", "P50", "P99", "COMPARED")
	}
	p50, p99 := fmt.Sprintf("%.3f ms", r.P50MS), fmt.Sprintf("%.3f ms", r.P99MS)
	switch {
	case r.N == 0:
		p50, p99 = "-", "-"
	case r.Unit != "":
		p50, p99 = fmt.Sprintf("%.2f", r.Value), ""
	}
	var compared []string
	switch {
	case r.Baseline != "":
		compared = append(compared, fmt.Sprintf("%.2fx of %s (%.3f ms)", r.Ratio, r.Baseline, r.BaselineP50MS))
	case strings.Contains(r.Unit, "per "): // a growth
		compared = append(compared, fmt.Sprintf("%s; before %.2f, after %.2f", r.Unit, r.Before, r.After))
	case r.Unit != "":
		compared = append(compared, r.Unit)
	}
	if r.Note != "" {
		compared = append(compared, r.Note)
	}
	fmt.Fprintf(t.out, line, r.Name, r.Backend, fmt.Sprint(r.N), p50, p99, human.Sanitize(strings.Join(compared, "; ")))
}

// step says how far a measurement is.
func (t *table) step(p figure.Progress) {
	if !t.tty && p.Done > 0 {
		return
	}
	what := "[bench] " + p.Measure
	if p.Backend != "" {
		what += ", " + p.Backend
	}
	if t.tty {
		fmt.Fprintf(t.progress, "\r\x1b[K%s: %d of %d", what, p.Done, p.Of)
		t.shown = true
		return
	}
	fmt.Fprintf(t.progress, "%s: %d samples\n", what, p.Of)
}

// erase removes the line that changes.
func (t *table) erase() {
	if t.shown {
		fmt.Fprint(t.progress, "\r\x1b[K")
		t.shown = false
	}
}
