package repair

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

// The scripts record which lines the tests of the gate execute: in the sandbox's
// shell, in the Python interpreter and in Node.
var (
	//go:embed trace.sh
	traceScript string
	//go:embed trace.py
	tracePython string
	//go:embed trace.cjs
	traceNode string
)

const (
	// traceSeconds bounds the traced run of the gate.
	traceSeconds = 60
	// maxTraced bounds the ranges of lines that are read of a trace.
	maxTraced = 2000
)

// trace makes the call that runs the gate once and records the executed lines.
func trace(gate string, failed []string) model.Call {
	s := strings.NewReplacer(
		"@PYTHON@", strings.TrimSpace(tracePython), "@SCRIPT@", strings.TrimSpace(traceNode),
		"@FAILED@", shellWord(strings.Join(failed, "\n")), "@SECONDS@", strconv.Itoa(traceSeconds), "@GATE@", shellWord(gate),
	).Replace(traceScript)
	return call("shell", map[string]any{"command": s, "timeout_seconds": traceSeconds + 30})
}

var (
	reTraceTests = lazyregexp.New(`(?m)^tests (\d+) (\d+)$`)
	reTraceLines = lazyregexp.New(`(?m)^lines (\S+) (\d+) (\d+) (\d+) (\d+)$`)
	reTraceEnd   = lazyregexp.New(`(?m)^traced (\d+)$`)
)

// readTrace reads what the traced run printed. It is nil where no line of a source
// was recorded, or not all that were recorded are there.
func readTrace(text string, source func(string) bool) *edit.Trace {
	tests, end := reTraceTests.FindStringSubmatch(text), reTraceEnd.FindStringSubmatch(text)
	all := reTraceLines.FindAllStringSubmatch(text, maxTraced+1)
	if tests == nil || end == nil || len(all) != atoi(end[1]) || len(all) > maxTraced {
		return nil
	}
	t := &edit.Trace{Failing: atoi(tests[1]), Passing: atoi(tests[2]), Ranges: map[string][]edit.Range{}}
	for _, m := range all {
		if source(m[1]) {
			t.Ranges[m[1]] = append(t.Ranges[m[1]], edit.Range{From: atoi(m[2]), To: atoi(m[3]), Failing: atoi(m[4]), Passing: atoi(m[5])})
		}
	}
	if t.Failing == 0 || len(t.Ranges) == 0 {
		return nil
	}
	return t
}

// traceable reports whether one of the sources is in a language that can be traced.
func (r *repairer) traceable() bool {
	return r.gateRun.killed == "" && slices.ContainsFunc(r.files, func(f edit.File) bool {
		l := edit.LangOf(f.Path)
		return (l == edit.Python || l == edit.JavaScript) && !edit.IsTest(f.Path)
	})
}
