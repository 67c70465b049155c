package repair

import (
	_ "embed"
	"strconv"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

// tryScript runs in the sandbox's shell: it tries edits in copies of the tree.
//
//go:embed try.sh
var tryScript string

const (
	// maxBatch bounds how many edits one call tries, maxScript how long its
	// script is in bytes.
	maxBatch  = 160
	maxScript = 48 << 10
	// gateSeconds bounds a run of the gate.
	gateSeconds = 180
	// hangSeconds is how long a gate may take that does not end by itself.
	hangSeconds = 8
	// fewInstalled is how many files an installed directory has at least for copies to have
	// links instead of them.
	fewInstalled = 2000
)

// Where a sandbox's files are, and a read-only mount of them.
const (
	workspaceDir = "/workspace"
	viewDir      = "/run/hortus-workspace"
)

// shellWord writes a word for a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tries makes the call that tries the edits from the n-th to the last one, counted
// from 1, and starts none after that many seconds. It gives the number of the first
// one that it leaves out.
func (a *Agent) tries(edits []edit.Edit, n, last, seconds int, gate, quick, root string, hangs bool) (model.Call, int) {
	if root != "" && root != "/" {
		gate, quick = strings.ReplaceAll(gate, root, "$PWD"), strings.ReplaceAll(quick, root, "$PWD") // the copy's own directory
	}
	limit := 0
	if hangs {
		limit = hangSeconds
	}
	var list strings.Builder
	end := n
	for ; end <= last && end-n < maxBatch && list.Len() < maxScript; end++ {
		e := edits[end-1]
		list.WriteString("\ttry " + strconv.Itoa(end) + " " + shellWord(e.Path) + " " + strconv.Itoa(e.From) + " " + strconv.Itoa(e.To))
		for _, l := range e.Lines {
			list.WriteString(" " + shellWord(l))
		}
		list.WriteString("\n")
	}
	s := strings.NewReplacer(
		"@WORKSPACE@", shellWord(a.workspace), "@VIEW@", shellWord(a.view), "@FEW@", strconv.Itoa(fewInstalled),
		"@GATE@", shellWord(gate), "@QUICK@", shellWord(quick), "@SECONDS@", strconv.Itoa(seconds), "@LIMIT@", strconv.Itoa(limit), "@EDITS@\n", list.String(),
	).Replace(tryScript)
	return call("shell", map[string]any{"command": s, "timeout_seconds": seconds + 2*gateSeconds}), end
}

// outcome is what came of one run of the gate.
type outcome struct{ edit, exit, failing, ran int }

// better reports whether more works in o than in the outcome b: more tests are run,
// or of as many fewer fail.
func (o outcome) better(b outcome) bool {
	return o.ran > b.ran || o.ran == b.ran && o.failing < b.failing
}

// trial is what a call of tries printed.
type trial struct {
	base   outcome
	ok     bool // the copies could be made and fail as the tree does
	passes int  // the first edit that passes, or 0
	best   outcome
	next   int // the first edit that was not tried, or 0
	tried  int
	took   int // in seconds
}

var (
	reOutcome = lazyregexp.New(`(?m)^(?:edit (\d+)|(baseline)): exit (\d+), failing (\d+), ran (-?\d+)$`)
	reTried   = lazyregexp.New(`(?m)^tried (\d+), next (\d+), seconds (\d+)$`)
	reExit    = lazyregexp.New(`(?m)^\[exit code (-?\d+)\]`)
	reKilled  = lazyregexp.New(`(?m)^\[killed: ([^\]\n]*)\]`)
)

func readTrial(text string) trial {
	var t trial
	for _, m := range reOutcome.FindAllStringSubmatch(text, maxBatch+1) {
		o := outcome{atoi(m[1]), atoi(m[3]), atoi(m[4]), atoi(strings.TrimPrefix(m[5], "-"))}
		if strings.HasPrefix(m[5], "-") {
			o.ran = -o.ran
		}
		switch {
		case m[2] != "":
			o.edit = 0
			t.base, t.ok, t.best = o, o.exit != 0, o
		case o.exit == 0:
			if t.passes == 0 || o.edit < t.passes {
				t.passes = o.edit
			}
		case o.better(t.best):
			t.best = o
		}
	}
	if m := reTried.FindStringSubmatch(text); m != nil {
		t.tried, t.next, t.took = atoi(m[1]), atoi(m[2]), atoi(m[3])
	} else {
		t.ok = false
	}
	return t
}

// run is what a command of the shell tool came to.
type run struct {
	output string
	exit   int
	killed string // why it did not end by itself
}

// readRun takes the last line off a result of the shell.
func readRun(text string) run {
	r := run{output: text, exit: -1}
	if all := reExit.FindAllStringSubmatchIndex(text, -1); len(all) > 0 {
		at := all[len(all)-1]
		r.output, r.exit = text[:at[0]], atoi(strings.TrimPrefix(text[at[2]:at[3]], "-"))
	}
	if all := reKilled.FindAllStringSubmatchIndex(text, -1); len(all) > 0 {
		at := all[len(all)-1]
		r.output, r.killed, r.exit = text[:at[0]], text[at[2]:at[3]], -1
	}
	return r
}

func (r run) passed() bool { return r.exit == 0 && r.killed == "" }

var (
	reNodeTest   = lazyregexp.New(`^node --test(?:\s+[\w./-]*)?$`)
	reGoTest     = lazyregexp.New(`^go test (?:-\w+(?:=\S+)? )*\./\.\.\.$`)
	reFailedUnit = lazyregexp.New(`(?m)^FAIL\t([\w./-]+)\s`)
)

// quickGate is a command that fails where the gate does and does less: the test
// files or packages that fail, alone. It is empty where none is known. What passes
// it has to pass the gate too.
func quickGate(gate string, failed run, tests []string) string {
	var parts []string
	switch gate = strings.TrimSpace(gate); {
	case failed.killed != "":
	case reNodeTest.MatchString(gate):
		for _, t := range tests {
			if edit.LangOf(t) == edit.JavaScript && len(parts) < 3 {
				parts = append(parts, "node "+shellWord(t))
			}
		}
	case reGoTest.MatchString(gate):
		for _, m := range reFailedUnit.FindAllStringSubmatch(failed.output, 4) {
			parts = append(parts, strings.Replace(gate, "./...", m[1], 1))
		}
	}
	return strings.Join(parts, " && ")
}
