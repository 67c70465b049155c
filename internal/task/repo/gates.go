package repo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/journal"
)

// gateEnv quiets programs that would wait for a person or leave files behind.
var gateEnv = map[string]string{
	"CI": "1", "NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1",
}

// usualEnv is what is left of that in disguise.
var usualEnv = map[string]string{"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}

// gates runs the gates of a task and reads their reports: what decides about its work.
type gates struct {
	attempt *attempt
	// commands are those of the gate, with what they reported before the work.
	checks []*gate.Check
	// support are files that tests are made of, by their contents and who calls them; nil if they are not known yet.
	support map[string]bool
	// colours is true if tests are about the variables of colours, of which none is set then.
	colours bool
}

// run runs the gates on a round's commit. An error means that no gate could be
// run, not that one failed.
func (j *gates) run(ctx context.Context, n int) error {
	r := &j.attempt.res.Rounds[n-1]
	if r.Head == "" || j.attempt.res.Verify == "" {
		return nil
	}
	changes, err := j.attempt.project.changed(ctx, r.Head)
	if err != nil {
		return err
	}
	tests, rest := j.divide(changes)
	touched := len(rest) < len(changes)
	need := gate.AllTests
	if touched {
		need = gate.AnyTests // those that were there before decide in the next gate
	}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "gate", Round: n, Detail: j.attempt.res.Verify}, gate.OutputName(n, "gate"), changes, terms{need: need})
	if err != nil {
		return err
	}
	r.Gate = &g
	if err := j.attempt.save(ctx); err != nil || !g.Passed && !j.onlyOld(r) {
		return err
	}
	if touched {
		g, err := j.over(ctx, api.RepoStepEvent{Step: "original tests", Round: n, Detail: "with the original tests: " + j.attempt.res.Verify}, gate.OutputName(n, "original"), rest, terms{need: gate.AllTests})
		if err != nil {
			return err
		}
		r.Original = &g
		if err := j.attempt.save(ctx); err != nil || !g.Passed && !j.onlyOld(r) && !j.attempt.project.req.TestsMayChange {
			return err
		}
	}
	if err := j.without(ctx, n, tests, rest); err != nil {
		return err
	}
	if r.Original != nil && j.attempt.project.req.TestsMayChange {
		err = j.disguised(ctx, n, changes, gate.AnyTests)
	} else {
		err = j.disguised(ctx, n, rest, gate.AllTests)
	}
	if err != nil {
		return err
	}
	if err := j.until(ctx, n, changes, rest); err != nil || j.attempt.project.req.Mutant == "" {
		return err
	}
	broken, err := j.attempt.project.repo.Patch(ctx, r.Head, strings.NewReader(j.attempt.project.req.Mutant))
	if err != nil {
		return api.Errorf(api.KindOf(err), "the mutant's patch: %w", err)
	}
	if changes, err = j.attempt.project.changed(ctx, broken); err != nil {
		return err
	}
	tried, err := j.over(ctx, api.RepoStepEvent{Step: "mutant", Round: n, Detail: "with a seeded defect: " + j.attempt.res.Verify}, gate.OutputName(n, "mutant"), changes, terms{})
	if err != nil {
		return err
	}
	r.Mutant = &tried
	return j.attempt.save(ctx)
}

// divide returns the changes that put the word of the gate in doubt, and the others. A link, or a file, that takes the place of
// a directory with such files is one of them: it hides them. So is a lock file, which goes with its manifest: the gate then runs with the
// packages of the base too.
func (j *gates) divide(changes []cache.Change) (tests, rest []cache.Change) {
	hidden := map[string]bool{}
	for _, c := range changes {
		if c.Delete && j.watched(c.Path) {
			for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
				hidden[dir] = true
			}
		}
	}
	for _, c := range changes {
		lock := gate.LocksRuler(c.Path) && !j.attempt.project.req.LocksMayChange
		if j.watched(c.Path) || lock || !c.Delete && hidden[c.Path] {
			tests = append(tests, c)
		} else {
			rest = append(rest, c)
		}
	}
	return tests, rest
}

// without runs the gate with the changed tests alone, where only that can tell whether
// any test touches the change.
func (j *gates) without(ctx context.Context, n int, tests, rest []cache.Change) error {
	code := slices.ContainsFunc(rest, func(c cache.Change) bool { return !api.IsDocument(c.Path) })
	r := &j.attempt.res.Rounds[n-1]
	if len(tests) == 0 || !code || j.attempt.res.Before == nil || !j.attempt.res.Before.Passed && !j.onlyOld(r) {
		return nil
	}
	// Tests whose code is missing may hang as well as fail: they get little more time than
	// they needed with it.
	within := min(j.attempt.project.gateTimeout(), 5*time.Second+3*time.Duration(r.Gate.MS)*time.Millisecond)
	g, err := j.over(ctx, api.RepoStepEvent{Step: "tests alone", Round: n, Detail: "with the changed tests only: " + j.attempt.res.Verify}, gate.OutputName(n, api.GateWithout), tests, terms{within: within})
	if err != nil {
		return err
	}
	r.Without = &g
	return j.attempt.save(ctx)
}

// passed reports whether every gate of a round says what it has to.
func (j *gates) passed(r *api.Round) bool {
	switch {
	case r.Gate == nil || !r.Gate.Passed || r.Acceptance != nil && !r.Acceptance.Passed:
		return false
	case r.Original != nil && !r.Original.Passed && !j.attempt.project.req.TestsMayChange:
		return false
	case r.Disguised != nil && !r.Disguised.Passed:
		return false
	case j.attempt.project.req.Mutant != "":
		// A mutant that was not run proves nothing, nor does one whose run was cut.
		return r.Mutant != nil && !r.Mutant.Passed && r.Mutant.Exit.Cause == ""
	}
	return true
}

// over runs the gate on the base with some changes.
func (j *gates) over(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	executed := false
	g, err := journal.Do(ctx, j.attempt.journal, "gate "+file, journal.Digest(j.attempt.res.Verify), func(ctx context.Context, _ journal.Try) (api.Gate, error) {
		executed = true
		return j.overNow(ctx, e, file, changes, on)
	})
	if err == nil && !executed {
		j.attempt.steps.recalled(e)
	}
	return g, err
}

// overNow is over without the journal.
func (j *gates) overNow(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	if len(changes) == 0 {
		return j.gate(ctx, e, file, on, j.attempt.project.prepared, j.attempt.project.members.layers()...)
	}
	top, release, err := j.attempt.project.cfg.Sandboxes.Over(ctx, j.attempt.project.members.layers(), changes)
	if err != nil {
		return api.Gate{}, err
	}
	defer release()
	installed, err := j.dependencies(ctx, changes, top)
	if err != nil {
		return api.Gate{}, err
	}
	defer installed.Release()
	return j.gate(ctx, e, file, on, installed, append(j.attempt.project.members.layers(), top)...)
}

// gate runs the command that decides in a clean sandbox over layers, with what is installed below them.
func (j *gates) gate(ctx context.Context, e api.RepoStepEvent, file string, on terms, installed SetupResult, layers ...Layer) (api.Gate, error) {
	j.attempt.steps.tell(ctx, api.EventRepoStep, e)
	g, err := j.decide(ctx, file, on, installed, layers, func(line string) {
		at := e
		at.Line = line
		j.attempt.steps.tell(ctx, api.EventRepoStep, at)
	})
	e.Done = true
	if e.MS = g.MS; g.Reused != nil {
		e.MS = 0
	}
	if err == nil {
		e.Gate = &g
	}
	j.attempt.steps.ended(ctx, e, err)
	return g, err
}

func (j *gates) decide(ctx context.Context, file string, on terms, installed SetupResult, layers []Layer, say func(line string)) (g api.Gate, err error) {
	g = api.Gate{Command: j.attempt.res.Verify, Exit: api.Exit{Code: -1}}
	if on.checks != nil {
		g.Command = on.checks[0].Text
	}
	whole, err := os.OpenFile(filepath.Join(j.attempt.dir, file+".out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return g, api.Errorf(api.KindInternal, "save the output of the gate: %w", err)
	}
	defer whole.Close()
	out := &observe.Capture{Whole: whole}
	now := j.attempt.project.cfg.Now
	var ends time.Time
	var ran []*gate.Ran
	checks := gate.Disguised(j.checks, on.disguise)
	if on.checks != nil {
		checks = on.checks
	}
	before, key, kept := file == "before", "", 0
	err = j.clean(ctx, installed, layers, func(sandbox Sandbox) error {
		info := sandbox.Info()
		g.Sandbox, g.Isolation = info.ID, info.Isolation
		if before {
			if key, err = j.earlierKey(ctx, info, installed, layers); err != nil {
				return err
			}
			if key != "" {
				var was api.Gate
				var ok bool
				if was, ok, kept, err = j.earlier(ctx, key); ok {
					g = was
				}
				if ok || err != nil {
					return err
				}
			}
		}
		start, seen := now(), gate.NewRunning(now, say)
		ends = start.Add(cmp.Or(on.within, j.attempt.project.gateTimeout()))
		for i, c := range checks {
			r, err := j.execute(ctx, sandbox, i, c, ends, out, seen)
			if g.MS = now().Sub(start).Milliseconds(); err != nil {
				return err
			}
			// The first that failed is how the gate ended; the others show what else is wrong.
			if i == 0 || g.Passed {
				g.Exit, g.Passed = r.Exit, r.Passed
			}
			if ran = append(ran, r); r.Cut {
				break
			}
		}
		return nil
	})
	if g.Reused != nil {
		return g, err
	}
	g.Output, g.OutputBytes = out.Text(), out.Total()
	if on.same {
		g.Passed = gate.Same(checks, ran)
		return g, err
	}
	if err == nil && !g.Passed && !j.attempt.project.req.Strict {
		g.Passed, err = j.again(ctx, checks, ran, ends, out, say, installed, layers)
	}
	if err != nil {
		return g, err
	}
	if before {
		checks = j.checks // which learn what there was
	}
	said := gate.Reports{Checks: checks, Ran: ran, Before: before, Need: on.need, File: filepath.Join(j.attempt.dir, file+".tests")}
	if err := said.Weigh(&g); err != nil || key == "" {
		return g, err
	}
	return g, j.keepEarlier(ctx, key, kept, g, ran)
}

// again runs failed tests alone, each time in a clean sandbox, in which nothing of an earlier run can forge a report. It reports whether
// the gate passes with what they came to.
func (j *gates) again(ctx context.Context, all []*gate.Check, ran []*gate.Ran, ends time.Time, out *observe.Capture, say func(line string), installed SetupResult, layers []Layer) (passed bool, err error) {
	now := j.attempt.project.cfg.Now
	if most := now().Add(gate.MaxAgainTime); most.Before(ends) {
		ends = most
	}
	for n := 2; n <= 1+gate.MaxAgain && now().Before(ends); n++ {
		checks := make([]*gate.Check, len(ran))
		for i, r := range ran {
			checks[i] = r.Again(all[i])
		}
		if !slices.ContainsFunc(checks, func(c *gate.Check) bool { return c != nil }) {
			break
		}
		line := fmt.Sprintf("the failed tests alone, run %d", n)
		say(line)
		fmt.Fprintf(out, "\n[%s]\n", line)
		err := j.clean(ctx, installed, layers, func(sandbox Sandbox) error {
			for i, c := range checks {
				if c == nil {
					continue
				}
				r, err := j.execute(ctx, sandbox, i, c, ends, out, gate.NewRunning(now, say))
				if err != nil {
					return err
				}
				ran[i].Take(all[i], r)
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	passed = len(ran) == len(all)
	for i, r := range ran {
		r.Adjust(all[i])
		passed = passed && r.Passed
	}
	return passed, nil
}

// clean does something in a clean sandbox over layers, with the services of the setup.
func (j *gates) clean(ctx context.Context, installed SetupResult, layers []Layer, do func(sandbox Sandbox) error) (err error) {
	sandbox, err := j.attempt.project.cfg.Sandboxes.Clean(ctx, installed.Into(j.attempt.project.sandbox()), j.attempt.res.Workspace, installed.Below(layers...)...)
	if err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		proof, cerr := sandbox.Close(late)
		j.attempt.steps.closed(proof.Left)
		err = cmp.Or(err, cerr)
	}()
	if err := Serve(ctx, sandbox, installed.Services); err != nil {
		return err
	}
	return do(sandbox)
}

// execute runs one command of a gate, the n-th, to its end, or until the time of the gate is over, and reads its report.
func (j *gates) execute(ctx context.Context, sandbox Sandbox, n int, c *gate.Check, ends time.Time, out io.Writer, seen *gate.Running) (*gate.Ran, error) {
	run, err := c.Arm(ctx, sandbox, n)
	if err != nil {
		return nil, err
	}
	if c.Dir != "" {
		fmt.Fprintf(out, "[%s] %s\n", c.Dir, c.Text)
	}
	env := gateEnv
	if c.Hides() {
		env = usualEnv
	}
	if j.colours {
		env = maps.Clone(env)
		delete(env, "NO_COLOR")
	}
	ex, err := sandbox.Run(ctx, api.ExecRequest{
		Args: []string{"sh", "-c", run.Command}, Dir: path.Join(Workspace, c.Dir), Env: env,
		TimeoutMS: max(1, ends.Sub(j.attempt.project.cfg.Now()).Milliseconds()), Tag: "gate",
	}, func(stream string, p []byte) error {
		if stream == "stdout" {
			p = run.Stdout(p)
		}
		seen.Write(p)
		_, err := out.Write(p)
		return err
	})
	if rest := run.End(); len(rest) > 0 {
		seen.Write(rest)
		if _, werr := out.Write(rest); err == nil {
			err = werr
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case ex.State == api.ExecUnknown && ex.Exit.Cause == "":
		return nil, api.Errorf(api.KindUnavailable, "the exit status of the gate in sandbox %s is unknown", ex.Sandbox)
	}
	return gate.NewRan(ctx, sandbox, run, ex)
}

func (w *project) gateTimeout() time.Duration {
	if ms := w.task.Create.RunTimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return api.DefaultGateTimeout
}

// findGate decides which command decides, before anybody works, and says why. A task may do without one: then nothing is verified.
func (j *gates) findGate(ctx context.Context) error {
	res := &j.attempt.res
	if v := j.attempt.project.req.Verify; v != "" {
		res.Verify, res.VerifyFrom = v, "asked"
		return j.attempt.save(ctx)
	}
	if err := j.detect(ctx); err != nil {
		return err
	}
	j.attempt.steps.tell(ctx, api.EventRepoStep, api.RepoStepEvent{Step: "gate command", Detail: cmp.Or(res.Verify, "none") + ": " + res.VerifyFrom, Done: true})
	return j.attempt.save(ctx)
}

// detect finds the command of each repository.
func (j *gates) detect(ctx context.Context) error {
	w, res := j.attempt.project, &j.attempt.res
	if !w.members.several() {
		c, err := w.members[0].ownGate(ctx)
		if err != nil && !w.mayLackGate(err) {
			return err
		}
		if res.Verify, res.VerifyFrom = c.Text, c.From; err != nil {
			res.VerifyFrom = api.AsError(err).Message
			if it := w.item(); it != nil && it.Acceptance != "" {
				res.Verify, res.VerifyFrom = it.Acceptance, "the acceptance of the item"
			}
		}
		return nil
	}
	// Each repository has its own, and all of them must pass. One without tests has none.
	var commands, from []string
	for i, m := range w.members {
		c, err := m.ownGate(ctx)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		res.Repositories[i].Verify = c.Text
		commands, from = append(commands, "(cd "+m.Name+" && "+c.Text+")"), append(from, m.Name+": "+c.From)
	}
	res.Verify, res.VerifyFrom = strings.Join(commands, " && "), strings.Join(from, ", ")
	if len(commands) == 0 {
		err := api.Errorf(api.KindNotFound, "none of the %d repositories has a known test command", len(w.members)).
			WithHint("Set the gate command, which runs in the directory above them, for example --verify 'cd %s && make check'.", w.members[0].Name)
		if !w.mayLackGate(err) {
			return err
		}
		res.VerifyFrom = api.AsError(err).Message
	}
	return nil
}

// mayLackGate reports whether a task does without a gate where no test command was found. What only a gate makes possible needs one.
func (w *project) mayLackGate(err error) bool {
	return api.KindOf(err) == api.KindNotFound && !w.req.Push && !w.req.MergeRequest && !w.req.GateOnly && w.req.Best == nil && w.req.Mutant == ""
}

// ownGate finds the test command of a repository.
func (m *repository) ownGate(ctx context.Context) (gate.Command, error) {
	// What is off limits is not in the gate's sandbox either.
	files, _, err := m.visible(ctx)
	if err != nil {
		return gate.Command{}, err
	}
	return gate.Detect(m.tree(ctx, files))
}

// lint finds the lint command of a repository; empty if it has none.
func (m *repository) lint(ctx context.Context) (string, error) {
	files, _, err := m.visible(ctx)
	if err != nil {
		return "", err
	}
	return gate.Lint(m.tree(ctx, files)).Text, nil
}

// tree shows the base to what looks for commands.
func (m *repository) tree(ctx context.Context, files []cache.Entry) gate.Tree {
	t := gate.Tree{Read: func(p string) []byte {
		if m.files.OffLimits(p) != "" {
			return nil
		}
		b, err := m.repo.ReadFile(ctx, m.base.Hash, p, gate.MaxFile)
		if err != nil {
			return nil
		}
		return b
	}}
	for _, f := range files {
		if f.Mode == cache.Regular || f.Mode == cache.Executable {
			t.Paths = append(t.Paths, f.Path)
		}
	}
	slices.Sort(t.Paths)
	return t
}

// watched reports whether a change of a file of the workspace puts the word of the gate in doubt.
func (j *gates) watched(p string) bool {
	if u := j.attempt.project.req.Until; j.support[p] || u != "" && gate.Watched(u, p, nil) {
		return true
	}
	if !j.attempt.project.members.several() {
		return gate.Watched(j.attempt.res.Verify, p, j.reported(""))
	}
	if j.attempt.project.req.Verify != "" && gate.Watched(j.attempt.project.req.Verify, p, j.reported("")) {
		return true
	}
	dir, rest, _ := strings.Cut(p, "/")
	for _, r := range j.attempt.res.Repositories {
		if r.Name == dir {
			return gate.Watched(r.Verify, rest, j.reported(dir))
		}
	}
	return false
}

// findSupport finds what the tests are made of.
func (j *gates) findSupport(ctx context.Context) error {
	j.support = map[string]bool{}
	w := j.attempt.project
	for i, m := range w.members {
		files, _, err := m.visible(ctx)
		if err != nil {
			return err
		}
		command, dir := j.attempt.res.Verify, ""
		if w.members.several() {
			dir = m.Name + "/"
			if w.req.Verify == "" {
				command = j.attempt.res.Repositories[i].Verify
			}
		}
		t := m.tree(ctx, files)
		j.colours = j.colours || gate.Colours(t)
		commands := []string{command}
		if u := w.req.Until; u != "" && u != command {
			commands = append(commands, u)
		}
		for _, command := range commands {
			for p := range gate.Support(t, command) {
				j.support[dir+p] = true
			}
		}
	}
	return nil
}

// reported asks the command of a directory whether its tests are in a file.
func (j *gates) reported(dir string) func(p string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(j.checks, func(c *gate.Check) bool { return c.Dir == dir && c.Reported(p) })
	}
}

// cannotStart is the end of a task whose gate could not start before the work, because its sandbox lacks a program; ok is false if it
// started. No model can repair that. If a person continues such a task, it is not stopped again.
func (w *attempt) cannotStart(ctx context.Context) (end End, stops bool) {
	if w.res.Before == nil || w.res.Before.Passed || w.project.last() != nil {
		return End{}, false
	}
	files, _, err := w.project.visible(ctx)
	if err != nil {
		return End{}, false // whatever it is ends the task later
	}
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	name := gate.Absent(w.res.Verify, *w.res.Before, w.project.task.Create.Request, paths)
	if name == "" {
		return w.cannotLoad(ctx)
	}
	return End{
		Outcome: api.OutcomeNeedsHuman,
		Diagnosis: fmt.Sprintf("The gate cannot start, also without a change: the sandbox has no %s (exit code %d). So nothing could be verified, and no model was asked.",
			name, w.res.Before.Exit.Code),
		Question: fmt.Sprintf("Install %s for the sandboxes, then run the task again. Or should another command decide (--verify CMD)?", name),
	}, true
}

// cannotLoad is the end of a task whose tests could not be loaded before the work, because the setup failed, or was left out, and did not
// install a package that the repository names. What the agent may have to write, or to name, is left to it.
func (w *attempt) cannotLoad(ctx context.Context) (end End, stops bool) {
	l, ok := observe.Lacking(w.res.Before.Output)
	if !ok || !gate.Unloaded(*w.res.Before, w.project.task.Create.Request, l.Name) {
		return End{}, false
	}
	failed := func(n api.NotInstalled) bool { return n.Language != "" && n.Language == l.Of() }
	if !w.project.req.NoSetup && !slices.ContainsFunc(w.res.NotInstalled, failed) {
		return End{}, false
	}
	needed := l.Installer != ""
	for _, m := range w.project.members {
		files, _, err := m.visible(ctx)
		if err != nil {
			return End{}, false
		}
		t := m.tree(ctx, files)
		of := dependency.Tree{Paths: t.Paths, Read: t.Read}
		if dependency.Provided(of, l.Of(), l.Name) != "" {
			return End{}, false
		}
		needed = needed || dependency.Needed(of, l.Of(), l.Name)
	}
	if !needed {
		return End{}, false
	}
	return End{
		Outcome:   api.OutcomeNeedsHuman,
		Diagnosis: fmt.Sprintf("No test could be loaded, also without a change (exit code %d), so no model was asked.", w.res.Before.Exit.Code),
		Question:  fmt.Sprintf("Install %s for the sandboxes, or repair the setup, then run the task again. Or should another command decide (--verify CMD)?", cmp.Or(l.Name, "what the tests need")),
	}, true
}

// terms are what a gate's run is held to.
type terms struct {
	need gate.Need
	// within is the time that the command has; zero is the gate's own.
	within time.Duration
	// disguise is what differs from how the gate usually runs; same says that it passes if each test ends as before the work.
	disguise report.Disguise
	same     bool
	// checks are other commands than those of the gate; nil for the gate.
	checks []*gate.Check
}

// gateCommands are those of the gate that was found.
func (j *gates) gateChecks() (out []*gate.Check) {
	if j.attempt.project.req.Verify == "" && j.attempt.project.members.several() {
		for _, r := range j.attempt.res.Repositories {
			if r.Verify != "" {
				out = append(out, &gate.Check{Dir: r.Name, Text: r.Verify, Plan: report.For(r.Verify)})
			}
		}
		return out
	}
	return []*gate.Check{{Text: j.attempt.res.Verify, Plan: report.For(j.attempt.res.Verify)}}
}

// maxSigned is how much of a change is read for cautions, in bytes.
const maxSigned = 64 << 20

// cautions are the lines of the result that could make a gate say what it should not.
func (j *gates) cautions(ctx context.Context, head string) ([]api.Caution, error) {
	patch, err := j.attempt.project.repo.Diff(ctx, j.attempt.project.base.Hash, head, cache.DiffOptions{Max: maxSigned})
	if api.KindOf(err) == api.KindExhausted {
		return []api.Caution{{Uses: fmt.Sprintf("more than %d MiB, not checked", maxSigned>>20)}}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []api.Caution
	for _, s := range gate.Signs(patch, j.watched) {
		out = append(out, api.Caution{Path: s.Path, Line: s.Line, Uses: s.Uses})
	}
	more, err := j.attempt.project.unread(ctx, head)
	return append(out, more...), err
}
