package repair

import (
	"fmt"
	"slices"
	"strings"

	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

// effort is how much of something is spent on a repair, or may be.
type effort struct {
	// calls that try edits, and the seconds that they take together.
	calls, seconds int
	// idle is how many candidates in a row may let no more tests pass.
	idle int
}

// maxEffort bounds a repair. Of 151 seeded mistakes whose repair is listed, that of 150
// is among the first 320 candidates.
var maxEffort = effort{calls: 7, seconds: 120, idle: 320}

// callSeconds bounds the seconds of one call that tries edits.
const callSeconds = 60

// traceGate runs the gate once to record which lines the failing tests execute. It
// is false while there is no answer.
func (r *repairer) traceGate() bool {
	if r.agent.untraced || !r.traceable() {
		return true
	}
	res, ok := r.h.ask("I run the gate again and record which lines the failing tests execute.",
		trace(r.brief.gate, edit.FailedTests(r.gateRun.output)))
	if ok {
		r.trace = readTrace(res[0], r.source)
	}
	return ok
}

// candidates lists the edits to try, without those in lines that no failing test
// executes. They stay, last, if the program starts processes of its own: what those
// execute may be missing from the trace.
func (r *repairer) candidates() []edit.Edit {
	f := r.seen()
	edits := edit.List(r.files, f, r.hints(f))
	if slices.ContainsFunc(r.files, func(f edit.File) bool { return reProcesses.MatchString(f.Text) }) {
		return edits
	}
	r.executed = r.trace != nil
	return edits[:edit.Reached(edits)]
}

var reProcesses = lazyregexp.New(`\b(?:subprocess|multiprocessing|concurrent\.futures|ProcessPoolExecutor|os\.(?:fork|system|popen|spawn|exec)\w*|child_process|worker_threads|node:cluster)\b`)

// seconds is how long the next call may try edits.
func (r *repairer) seconds() int {
	return min(callSeconds, r.agent.limit.seconds-r.effort.seconds)
}

// lastUseful is the number of the last candidate to try when best is the best
// outcome so far.
func (r *repairer) lastUseful(best outcome) int { return best.edit + r.agent.limit.idle }

// goesOn reports whether to try candidates from the next one on.
func (r *repairer) goesOn(edits []edit.Edit, next int, best outcome) bool {
	switch limit := r.agent.limit; {
	case next > len(edits):
		r.stopped = "all candidates were tried"
	case next > r.lastUseful(best):
		r.stopped = fmt.Sprintf("%d candidates in a row let no more tests pass", limit.idle)
	case r.effort.calls >= limit.calls:
		r.stopped = fmt.Sprintf("%d calls tried edits, which is the maximum", limit.calls)
	case r.seconds() <= 0:
		r.stopped = fmt.Sprintf("the time for trying edits (%d s) is used up", limit.seconds)
	default:
		return true
	}
	return false
}

// spend counts a call that tried edits.
func (r *repairer) spend(edits []edit.Edit, next int, t trial) {
	r.effort.calls++
	r.effort.seconds += t.took
	last := min(len(edits), next-1+t.tried)
	r.tried = append(r.tried, edits[min(next-1, last):last]...)
}

// trying returns which candidates are tried, where they are, and how many are left.
func (r *repairer) trying(edits []edit.Edit, next, end int) string {
	reached := ""
	if r.executed {
		reached = " that the failing tests execute"
	}
	return fmt.Sprintf("%d candidate edits in lines of %s%s, most likely first; trying %d to %d in copies of the tree, %d left after that "+
		"(trial call %d of at most %d; %d s of %d s used). It stops after %d in a row that let no more tests pass.",
		len(edits), filesOf(edits), reached, next, end-1, len(edits)-end+1, r.effort.calls+1, r.agent.limit.calls,
		r.effort.seconds, r.agent.limit.seconds, r.agent.limit.idle)
}

// filesOf names the first files that edits are in.
func filesOf(edits []edit.Edit) string {
	const most = 3
	var paths []string
	for _, e := range edits {
		if !slices.Contains(paths, e.Path) {
			paths = append(paths, e.Path)
		}
	}
	where := strings.Join(paths[:min(len(paths), most)], ", ")
	if n := len(paths) - most; n > 0 {
		where += fmt.Sprintf(" and %d more files", n)
	}
	return where
}
