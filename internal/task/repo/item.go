package repo

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// PlanBranch is the name of a plan's branch in the cache.
func PlanBranch(id api.PlanID) string { return "hortus/" + string(id) }

// RequestFile is where the agent of an item says which other files it needs: a line for each, a path and a reason. It is never part of
// the result.
const RequestFile = ".hortus/request-files"

// maxRequestFile bounds what is read of it, in bytes.
const maxRequestFile = 4 << 10

// item is what a task of a plan is part of; nil for any other task.
func (w *project) item() *api.ItemTask { return w.req.Item }

// checks reports whether a commit is judged that is there, and no agent works.
func (w *project) checks() bool { return w.item() != nil && w.item().Check != "" }

// foundItem finds the commit of an item in the cache: the plan has fetched it, or made it.
func (m *repository) foundItem(ctx context.Context) (err error) {
	if m.repo, err = m.project.cfg.Git.Find(m.URL); err != nil {
		return err
	}
	m.base, err = m.repo.Resolve(ctx, m.Ref)
	m.base.Branch = m.project.item().Branch
	return err
}

// workspaceLayers are the layers of the agent's workspace, with earlier work on the item above them. That stays until the attempt ends.
func (w *attempt) workspaceLayers(ctx context.Context) ([]Layer, error) {
	layers := w.spec.layers(w.project)
	it := w.project.item()
	if it == nil || it.Start == "" {
		return layers, nil
	}
	changes, err := w.project.changed(ctx, it.Start)
	if err != nil || len(changes) == 0 {
		return layers, err
	}
	top, release, err := w.project.cfg.Sandboxes.Over(ctx, w.project.members.layers(), changes)
	if err != nil {
		return nil, err
	}
	w.held = append(w.held, release)
	return append(layers, top), nil
}

// parent is the commit that what was written in the workspace is a change of.
func (w *project) parent() string {
	if it := w.item(); it != nil && it.Start != "" {
		return it.Start
	}
	return w.base.Hash
}

// judge runs the gates on a commit of the plan in the place of an agent's work. What failed before the plan does not decide.
func (w *attempt) judge(ctx context.Context) End {
	it := w.project.item()
	w.res.Branch, w.res.Head = PlanBranch(it.Plan), it.Check
	w.res.Rounds = []api.Round{{N: 1, Stop: api.StopFinished, Head: it.Check}}
	if err := w.list(ctx, it.Check); err != nil {
		return w.broken(ctx, err)
	}
	w.res.Title = w.project.task.Create.Request
	if err := w.gates.merged(ctx); err != nil {
		return w.broken(ctx, err)
	}
	r := &w.res.Rounds[0]
	if w.gates.onlyOld(r) && (w.project.req.Until == "" || r.Acceptance != nil && r.Acceptance.Passed) { // the exit code decides about a command Until
		w.res.Rounds = concede(w.res.Rounds)
		r = &w.res.Rounds[0]
	}
	if w.gates.passed(r) {
		return End{Outcome: api.OutcomeVerified}
	}
	failed, with := r.Gate, ""
	switch {
	case failed == nil || !failed.Passed:
	case r.Original != nil && !r.Original.Passed:
		failed, with = r.Original, " with the tests as they were before the plan"
	default:
		failed = r.Acceptance
	}
	end := End{Outcome: api.OutcomeNeedsHuman, Diagnosis: "Nothing could verify the merged result: " + w.res.VerifyFrom}
	if failed != nil {
		end.Diagnosis = fmt.Sprintf("%s fails on the merged result%s: %s.", failed.Command, with, gate.ExitText(*failed))
	}
	return end
}

// merged runs the gate, and the acceptance of the item, on a commit that others' work is part of. If tests were changed, the gate must pass
// with them as they were before the plan too: an item with an acceptance was not judged by them yet.
func (j *gates) merged(ctx context.Context) error {
	r := &j.attempt.res.Rounds[0]
	changes, err := j.attempt.project.changed(ctx, r.Head)
	if err != nil || j.attempt.res.Verify == "" {
		return err
	}
	need := gate.AllTests
	_, rest := j.divide(changes)
	touched := len(rest) < len(changes)
	if touched {
		need = gate.AnyTests // those that were there before decide in the next gate
	}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "gate", Round: 1, Detail: "on the merged result: " + j.attempt.res.Verify}, gate.OutputName(1, "gate"), changes, terms{need: need})
	if err != nil {
		return err
	}
	r.Gate = &g
	if !g.Passed && !j.onlyOld(r) {
		return j.attempt.save(ctx)
	}
	if touched && !j.attempt.project.req.TestsMayChange {
		g, err := j.over(ctx, api.RepoStepEvent{Step: "original tests", Round: 1, Detail: "with the original tests: " + j.attempt.res.Verify}, gate.OutputName(1, "original"), rest, terms{need: gate.AllTests})
		if err != nil {
			return err
		}
		r.Original = &g
		if !g.Passed && !j.onlyOld(r) {
			return j.attempt.save(ctx)
		}
	}
	it := j.attempt.project.item()
	if j.attempt.project.req.Until != "" {
		return j.until(ctx, 1, changes, rest)
	}
	if it.Acceptance == "" || it.Acceptance == j.attempt.res.Verify {
		return j.attempt.save(ctx)
	}
	checks := []*gate.Check{{Text: it.Acceptance, Plan: report.Plain(it.Acceptance)}}
	accepted, err := j.over(ctx, api.RepoStepEvent{Step: "acceptance", Round: 1, Detail: it.Acceptance}, gate.OutputName(1, api.GateAcceptance), changes, terms{checks: checks})
	if err != nil {
		return err
	}
	r.Acceptance = &accepted
	return j.attempt.save(ctx)
}

// excuses reports whether a round of an item passes although tests failed that failed before it too: those are of other items, or of
// nobody's. A test has to show what the item does.
func (j *gates) excuses(r *api.Round) bool {
	return j.attempt.project.item() != nil && j.onlyOld(r) && j.shown(r)
}

// wanted takes the request of an item's agent for more files out of its changes.
func (w *project) wanted(changes []cache.Change) (rest []cache.Change, wanted []api.WantedFile) {
	if w.item() == nil {
		return changes, nil
	}
	for _, c := range changes {
		if c.Path != RequestFile {
			rest = append(rest, c)
		} else if !c.Delete && c.Mode != cache.Symlink && c.Size <= maxRequestFile {
			wanted = readRequest(c)
		}
	}
	return rest, wanted
}

// readRequest reads the file of a request. What cannot be read requests nothing.
func readRequest(c cache.Change) (wanted []api.WantedFile) {
	f, err := c.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRequestFile))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(git.Sanitize(string(text), maxRequestFile)) {
		path, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path = strings.TrimPrefix(path, Workspace+"/"); path != "" && filepath.IsLocal(path) && len(wanted) < maxWanted {
			wanted = append(wanted, api.WantedFile{Path: path, Why: strings.TrimSpace(why)})
		}
	}
	return wanted
}

// maxWanted bounds how many files an item requests at a time.
const maxWanted = 20

// denied adds the files that the agent of an item has written and may not change.
func (w *project) denied(wanted []api.WantedFile, refused []api.RefusedChange) []api.WantedFile {
	if w.item() == nil {
		return nil
	}
	for _, r := range refused {
		known := slices.ContainsFunc(wanted, func(f api.WantedFile) bool { return f.Path == r.Path })
		if !known && w.files.OffLimits(r.Path) == "" && len(wanted) < maxWanted {
			wanted = append(wanted, api.WantedFile{Path: r.Path})
		}
	}
	return wanted
}
