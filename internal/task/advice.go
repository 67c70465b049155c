package task

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

// advise adds to the diagnosis of a task that was not verified what its sandbox did not
// have, and how to get it there.
func (e *Engine) advise(ctx context.Context, t *api.Task) {
	if e.cfg.Advise == nil || t.Outcome != api.OutcomeNeedsHuman {
		return
	}
	lack, ok := lackOf(*t)
	if !ok {
		return
	}
	advice := e.cfg.Advise(context.WithoutCancel(ctx), t.Create.Sandbox, lack)
	if advice == "" {
		return
	}
	if t.Diagnosis != "" {
		t.Diagnosis = strings.TrimRight(t.Diagnosis, ". \n") + ". "
	}
	t.Diagnosis += advice
}

// lackOf finds what a task failed for want of.
func lackOf(t api.Task) (observe.Lack, bool) {
	if r := t.Repo; r != nil {
		return lackOfGate(*r)
	}
	var results []api.ExecutionResult
	var languages []api.Language
	for _, a := range slices.Backward(t.Attempts) {
		if a.Result != nil {
			results, languages = append(results, *a.Result), append(languages, a.Artifact.Language)
		}
	}
	if len(results) == 0 || results[0].OK {
		return observe.Lack{}, false
	}
	switch results[0].Category {
	case api.CategoryImport, api.CategoryCommand, api.CategoryInstall, api.CategoryNetwork:
	default:
		// A program may hide its own failure behind another: npm and pip end with 1.
		l, ok := observe.Lacking(results[0].Stderr)
		return l, ok && l.Installer != ""
	}
	if observe.Absent(results[0].Detail) {
		return observe.Lack{}, false // its name is wrong, and that was said
	}
	// What could not be installed is what an earlier attempt missed.
	for i, res := range results {
		switch {
		case res.Missing != "" && res.Category == api.CategoryCommand:
			return observe.Lack{Name: res.Missing}, true
		case res.Missing != "":
			return observe.Lack{Language: languages[i], Name: res.Missing, Told: results[0].Phase == api.PhaseInstall && results[0].Detail != ""}, true
		}
		if res.Phase != api.PhaseInstall {
			break
		}
	}
	return observe.Lacking(results[0].Stderr)
}

// lackOfGate finds it in what the last gate printed, of a result or before the work.
func lackOfGate(r api.RepoResult) (observe.Lack, bool) {
	g := r.Before
	for _, x := range slices.Backward(r.Rounds) {
		if x.Gate != nil {
			g = x.Gate
			break
		}
	}
	if g == nil || g.Passed {
		return observe.Lack{}, false
	}
	return observe.Lacking(g.Output)
}
