package repo

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// terms are what a gate's run is held to.
type terms struct {
	need gate.Need
	// within is the time that the command has; zero is the gate's own.
	within time.Duration
}

// gateCommands are those of the gate that was found.
func (j *gates) gateCommands() (out []*gate.Check) {
	if j.of.req.Verify == "" && j.of.members.several() {
		for _, r := range j.of.res.Repositories {
			if r.Verify != "" {
				out = append(out, &gate.Check{Dir: r.Name, Text: r.Verify, Plan: report.For(r.Verify)})
			}
		}
		return out
	}
	return []*gate.Check{{Text: j.of.res.Verify, Plan: report.For(j.of.res.Verify)}}
}

// maxSigned is how much of a change is read for cautions, in bytes.
const maxSigned = 64 << 20

// cautions are the lines of the result that could make a gate say what it should not.
func (j *gates) cautions(ctx context.Context, head string) ([]api.Caution, error) {
	patch, err := j.of.repo.Diff(ctx, j.of.base.Hash, head, cache.DiffOptions{Max: maxSigned})
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
	return out, nil
}
