package repo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// disguised runs the gate of a round that passed again, so that a program cannot tell that it is tested. If tests fail then that passed,
// the program passes only because it is asked by tests, unless the commit before the work is not the same in that disguise either: then
// the disguise proves nothing. Without all of it, each part of a disguise that proves something is tried, unless that would take long.
func (j *gates) disguised(ctx context.Context, n int, changes []cache.Change, need gate.Need) error {
	r := &j.attempt.res.Rounds[n-1]
	reports := slices.ContainsFunc(j.checks, func(c *gate.Check) bool { return c.Tests.Began && c.Plan.Reports() })
	if !reports || !slices.ContainsFunc(changes, func(c cache.Change) bool { return !api.IsDocument(c.Path) }) {
		return nil
	}
	token := "_x" + r.Head[:min(len(r.Head), 6)]
	renamed, err := j.renamed(ctx, token, changes)
	if err != nil {
		return err
	}
	all := report.Everything
	if passed, failed := j.counts(); passed <= failed {
		all &^= report.Order // nothing tells whether the tests depend on it
	}
	if len(renamed) == 0 {
		all &^= report.Files
	}
	for _, parts := range []report.Part{all, report.Names, report.Files, report.Place, report.Date, report.Order} {
		if all&parts == 0 || parts != all && r.Gate.MS > maxParts.Milliseconds() {
			continue
		}
		g, differs, err := j.inDisguise(ctx, n, report.Disguise{Parts: parts, Token: token}, renamed, changes, need)
		if err != nil {
			return err
		}
		switch {
		case differs:
			g.Tests = cmp.Or(g.Tests, &api.TestReport{})
			g.Tests.Why = strings.TrimSuffix(fmt.Sprintf("the tests pass only when the program can see that it is tested, and fail with another %s: %s", parts.Says(), g.Tests.Why), ": ")
			r.Disguised = &g
			return j.attempt.save(ctx)
		case g.Passed:
			if r.Disguised = &g; parts == all {
				return j.attempt.save(ctx)
			}
		}
	}
	r.NoDisguise = r.Disguised == nil
	return j.attempt.save(ctx)
}

// maxParts is how long a gate may take whose disguise is tried in parts: with the runs before the work these are up to ten more runs.
const maxParts = 10 * time.Second

// counts are the tests that passed and failed before the work.
func (j *gates) counts() (passed, failed int) {
	for _, c := range j.checks {
		passed, failed = passed+c.Tests.Count(report.Passed), failed+c.Tests.Count(report.Failed, report.Broken)
	}
	return passed, failed
}

// inDisguise runs the gate in a disguise. It differs if it fails, and the commit before the work is in it as it was without.
func (j *gates) inDisguise(ctx context.Context, n int, d report.Disguise, renamed, changes []cache.Change, need gate.Need) (g api.Gate, differs bool, err error) {
	if d.Parts&report.Files == 0 {
		d.Token, renamed = "", nil
	}
	name := gate.OutputName(n, api.GateDisguised)
	if d.Parts&(d.Parts-1) == 0 {
		name += fmt.Sprintf("-%d", d.Parts)
	}
	e := api.RepoStepEvent{Step: "disguise", Round: n, Detail: fmt.Sprintf("with another %s: %s", d.Parts.Says(), j.attempt.res.Verify)}
	g, err = j.over(ctx, e, name, slices.Concat(changes, renamed), terms{need: need, disguise: d})
	if err != nil {
		return g, false, err
	}
	r := &j.attempt.res.Rounds[n-1]
	plain := cmp.Or(j.refers(r), r.Gate) // it fails if only old failures keep it from passing
	g.Passed = g.Passed || !plain.Passed && g.Tests != nil && g.Tests.OldOnly && g.Tests.OldCount == plain.Tests.OldCount && slices.Equal(g.Tests.Old, plain.Tests.Old)
	if g.Passed {
		return g, false, nil
	}
	e.Round, e.Detail = 0, "the same before any change: "+j.attempt.res.Verify
	before, err := j.over(ctx, e, name+"-before", renamed, terms{same: true, disguise: d})
	return g, before.Passed, err
}

// Bounds of the files that are read to rename tests. Where there are more, none is renamed.
const (
	maxRenamed      = 400
	maxRenamedBytes = 16 << 20
)

// renamed are the test files of the commit before the work under other names, but for those that something names. What changes holds is
// as the agent left it.
func (j *gates) renamed(ctx context.Context, token string, changes []cache.Change) ([]cache.Change, error) {
	w := j.attempt.project
	entries, err := w.repo.Files(ctx, w.base.Hash)
	if err != nil {
		return nil, err
	}
	touched := map[string]bool{}
	for _, c := range changes {
		touched[c.Path] = true
	}
	var tests []cache.Entry
	contents := map[string][]byte{}
	size := 0
	names := gate.NewMentions()
	for _, e := range entries {
		if e.Mode != cache.Regular && e.Mode != cache.Executable || w.files.OffLimits(e.Path) != "" {
			continue
		}
		names.Path(e.Path)
		if !j.watched(e.Path) || touched[e.Path] {
			continue
		}
		if size += int(e.Size); len(contents) == maxRenamed || size > maxRenamedBytes {
			return nil, nil
		}
		text, err := w.repo.Content(ctx, e, maxRenamedBytes)
		if err != nil {
			return nil, err
		}
		if contents[e.Path] = text; gate.OtherName(e.Path, token) != "" {
			tests = append(tests, e)
		}
		names.Text(text)
	}
	for _, c := range j.checks {
		names.Text([]byte(c.Text))
	}
	var out []cache.Change
	for _, e := range tests {
		if names.Of(e.Path) > 1 { // its own path is one
			continue
		}
		text := contents[e.Path]
		out = append(out, cache.Change{Path: e.Path, Delete: true}, cache.Change{Path: gate.OtherName(e.Path, token), Mode: e.Mode, Size: e.Size,
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }})
	}
	return out, nil
}
