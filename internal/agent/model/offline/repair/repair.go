package repair

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

// maxFixes is how many edits may be needed together.
const maxFixes = 3

// repairer is one repair on its way.
type repairer struct {
	*session
	tree    tree
	skipped []entry // sources that were not read
	files   []edit.File
	done    []edit.Edit // edits that are in the tree, in order
	was     []edit.File // each edit's file before it
	trace   *edit.Trace
	// executed is true if the candidates are in lines that failing tests execute.
	executed bool
	effort   effort // what was spent
	tried    []edit.Edit
	stopped  string // why the last round ended without a repair
	gateRun  run
}

// repair makes the gate pass, or says why it cannot.
func (s *session) repair() {
	r := &repairer{session: s}
	results, ok := s.h.ask("I run the gate and look at what is here.", r.gate(), call("shell", map[string]any{"command": lookScript}))
	if !ok {
		return
	}
	r.gateRun, r.tree = readRun(results[0]), readTree(results[1])
	if r.gateRun.passed() {
		s.finish("Nothing was changed: the gate passes already, so there is no failure to repair.", "")
		return
	}
	if why := r.hopeless(); why != "" {
		s.finish("Nothing was changed.", why)
		return
	}
	if !r.read() || !r.traceGate() {
		return
	}
	for range maxFixes {
		switch r.round() {
		case waits:
			return
		case passed:
			s.finish(r.summary(), "")
			return
		case failed:
			if r.undo(0) {
				s.finish("Nothing was changed.", r.failure())
			}
			return
		}
	}
	if r.undo(0) {
		s.finish("Nothing was changed.", r.failure())
	}
}

func (r *repairer) gate() model.Call {
	return call("shell", map[string]any{
		"command": r.brief.gate, "timeout_seconds": gateSeconds,
		// Files of bytecode are not to be left behind, and mislead within the
		// second that they were made in.
		"env": map[string]any{"PYTHONDONTWRITEBYTECODE": "1"},
	})
}

var (
	reNoCommand = lazyregexp.New(`(?m)^.*(?:: (?:command )?not found|No such file or directory: '(?:python3?|node|go|npm|pytest)').*$`)
	reNoModule  = lazyregexp.New(`No module named '?(pytest|[\w.]+)'?|Cannot find (?:module|package) '([^'./][^']*)'|no required module provides package ([\w./-]+)|dial tcp: lookup (\S+)`)
)

// hopeless returns what no edit of a source can edit.
func (r *repairer) hopeless() string {
	out := r.gateRun.output
	if r.gateRun.exit == 127 || r.gateRun.exit == 126 {
		return "the gate's command could not be run here: " + firstLine(reNoCommand.FindString(out), out)
	}
	if len(r.tree.files) == 0 {
		return "there are no sources in Python, JavaScript or Go here, and it knows no other language"
	}
	if m := reNoModule.FindStringSubmatch(out); m != nil && len(edit.Frames(out, r.tree.root, r.source)) == 0 {
		return "something that the gate needs is not installed here: " + m[0]
	}
	return ""
}

// source reports whether a path is one that may be edited.
func (r *repairer) source(p string) bool {
	return !edit.IsTest(p) && slices.ContainsFunc(r.tree.files, func(e entry) bool { return e.path == p })
}

func firstLine(list ...string) string {
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			s, _, _ = strings.Cut(s, "\n")
			return fmt.Sprintf("%.200s", s)
		}
	}
	return "it printed nothing"
}

// read views the sources.
func (r *repairer) read() bool {
	if r.gateRun.killed != "" && !r.stack() {
		return false
	}
	files, skipped := r.tree.choose(r.gateRun.output)
	r.skipped = skipped
	results, ok := r.h.each("", views(files))
	if !ok {
		return false
	}
	r.files = readViews(files, results)
	return true
}

// stack asks a gate that does not end where it is.
func (r *repairer) stack() bool {
	env := map[string]any{"PYTHONDONTWRITEBYTECODE": "1", "GOFLAGS": "-timeout=10s"}
	res, ok := r.h.ask("The gate does not end. I interrupt it, to see where it is.",
		call("shell", map[string]any{"command": "timeout -s INT -k 5 15 sh -c " + shellWord(r.brief.gate), "env": env}))
	if ok {
		killed := r.gateRun.killed
		r.gateRun = readRun(res[0])
		r.gateRun.killed = killed
	}
	return ok
}

type state int

const (
	waits  state = iota // for the answer to what was asked
	passed              // the gate passes
	better              // an edit helps, and is in the tree
	failed              // nothing helps
)

// round tries edits and puts the one that helps into the tree.
func (r *repairer) round() state {
	edits := r.candidates()
	if len(edits) == 0 {
		r.stopped = "there is no further small edit to try"
		return failed
	}
	next := 1
	var best outcome
	for r.goesOn(edits, next, best) {
		c, end := r.agent.tries(edits, next, min(len(edits), r.lastUseful(best)), r.seconds(), r.brief.gate, r.quick(), r.tree.root, r.gateRun.killed != "")
		res, ok := r.h.ask(r.trying(edits, next, end), c)
		if !ok {
			return waits
		}
		t := readTrial(res[0])
		r.spend(edits, next, t)
		if !t.ok {
			r.stopped = "the gate could not be run in a copy of the tree, or passes there"
			return failed
		}
		if best == (outcome{}) {
			best = t.base
		}
		if t.passes > 0 && t.passes < end {
			switch s := r.take(edits[t.passes-1], "makes the gate pass in a copy"); s {
			case passed, waits:
				return s
			}
			// What passes in a copy and not here is nothing to build on.
			if !r.undo(len(r.done) - 1) {
				return waits
			}
			next = t.passes + 1
			continue
		}
		if t.best.edit > 0 && t.best.edit < end && t.best.better(best) {
			best = t.best
		}
		next = end
		if t.next > 0 {
			next = t.next
		}
		if t.tried == 0 {
			r.stopped = "one run of the gate takes too long to try edits"
			return failed
		}
	}
	if best.edit == 0 || len(r.done) == maxFixes-1 {
		return failed
	}
	if s := r.take(edits[best.edit-1], "lets more tests pass in a copy"); s != failed {
		return s
	}
	return better
}

// quick is the part of the gate that fails.
func (r *repairer) quick() string {
	var tests []string
	for _, f := range edit.Frames(r.gateRun.output, r.tree.root, func(p string) bool { return edit.IsTest(p) && r.there(p) }) {
		if !slices.Contains(tests, f.Path) {
			tests = append(tests, f.Path)
		}
	}
	return quickGate(r.brief.gate, r.gateRun, tests)
}

// there reports whether the tree has a file.
func (r *repairer) there(p string) bool {
	return slices.ContainsFunc(r.tree.files, func(e entry) bool { return e.path == p })
}

// seen is the failure as it stands.
func (r *repairer) seen() edit.Failure {
	return edit.Failure{Output: errorLines(r.gateRun.output), Root: r.tree.root, Recent: r.tree.recent, Trace: r.trace}
}

// take puts an edit into the tree and runs the gate. It gives failed where the
// gate fails still; the edit is in the tree all the same.
func (r *repairer) take(e edit.Edit, why string) state {
	i := slices.IndexFunc(r.files, func(f edit.File) bool { return f.Path == e.Path })
	if i < 0 {
		return failed
	}
	after, ok := e.Apply(r.files[i].Text)
	if !ok {
		return failed
	}
	from, to := surround(r.files[i].Text, after, e)
	say := "Edit " + e.Path + ":" + strconv.Itoa(e.From) + " " + why + ". I make it here and run the gate."
	res, ok := r.h.ask(say, replacing(e.Path, from, to), r.gate())
	if !ok {
		return waits
	}
	r.was = append(r.was, r.files[i])
	r.done = append(r.done, e)
	r.files = slices.Clone(r.files)
	r.files[i].Text = after
	r.gateRun = readRun(res[1])
	if r.gateRun.passed() {
		return passed
	}
	return failed
}

func replacing(path, from, to string) model.Call {
	return call("str_replace", map[string]any{"path": path, "old": from, "new": to})
}

// undo takes edits back until n are left.
func (r *repairer) undo(n int) bool {
	for len(r.done) > n {
		k := len(r.done) - 1
		e, was := r.done[k], r.was[k]
		after, _ := e.Apply(was.Text)
		from, to := surround(was.Text, after, e)
		if !strings.Contains(after, to) || strings.Count(after, to) != 1 {
			from, to = was.Text, after // whole files are unique
		}
		if _, ok := r.h.ask("The gate still fails. I revert the edit.", replacing(e.Path, to, from)); !ok {
			return false
		}
		for i := range r.files {
			if r.files[i].Path == e.Path {
				r.files[i] = was
			}
		}
		r.done, r.was = r.done[:k], r.was[:k]
	}
	return true
}
