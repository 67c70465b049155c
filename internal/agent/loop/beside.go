package loop

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"hortus.dev/internal/agent/model"
)

// maxBeside is the most calls that run at the same time.
const maxBeside = 8

// pending is a call of an answer, and what came of it.
type pending struct {
	call model.Call
	// tool is nil if the call cannot be run; why is the reason then.
	tool Tool
	why  string
	n    int // counts the calls that were run

	res    Result
	err    error
	took   time.Duration
	broken any // what the tool panicked with
}

// next returns the first calls of a list that may run at the same time: one of any tool, or consecutive ones of tools
// that change nothing in the sandbox, such as research. Calls that cannot be run are between any others.
func (r *run) next(calls []model.Call) (group []*pending) {
	var last *pending // that can be run
	for _, c := range calls {
		p := &pending{call: c}
		if p.tool, p.why = r.check(c); p.tool != nil {
			if last != nil && !(r.reads[c.Name] && r.reads[last.call.Name]) {
				break
			}
			r.made++
			p.n, last = r.made, p
			if q, ok := p.tool.(researcher); ok {
				p.tool = q.begin(c.Input)
			}
		}
		group = append(group, p)
	}
	return group
}

// perform runs calls at the same time, and returns when all of them have ended.
func (r *run) perform(all []*pending) {
	defer func() {
		for _, p := range all {
			if q, ok := p.tool.(*asking); ok {
				q.end()
			}
		}
	}()
	var runs []*pending
	for _, p := range all {
		if p.tool != nil {
			runs = append(runs, p)
		}
	}
	if len(runs) == 1 {
		r.performOne(runs[0])
		return
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, maxBeside)
	for _, p := range runs {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() {
				p.broken = recover()
				<-slots
			}()
			r.performOne(p)
		})
	}
	wait.Wait()
	for _, p := range runs {
		if p.broken != nil {
			panic(p.broken) // in the goroutine of the Run's caller
		}
	}
}

func (r *run) performOne(p *pending) {
	start := r.cfg.Now()
	p.res, p.err = r.cfg.Do(r.ctx, p.n, p.tool, p.call.Input)
	p.took = r.cfg.Now().Sub(start)
}

// callTool is the Do of a configuration without one.
func callTool(ctx context.Context, _ int, t Tool, input json.RawMessage) (Result, error) {
	return t.Call(ctx, input)
}
