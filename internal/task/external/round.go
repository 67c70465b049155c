package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
	"hortus.dev/internal/agent/loop"
)

// Bounds of a round.
const (
	maxCalls   = 1000 // that have not ended
	maxText    = 64 << 10
	maxList    = 200
	maxToolTag = 40
)

// round is one turn of the agent. Its updates come from the goroutine of the client, and everything else when that has
// ended.
type round struct {
	*worker
	caller context.Context
	// ctx is that of the turn, which ends with its budgets, too.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// live is true while the agent works on the message: before, it may replay what was said.
	live atomic.Bool
	// again is true if the turn began again in another sandbox.
	again bool
	rep   loop.Report
	said  strings.Builder
	calls map[string]*call
	order []string // of calls that have not ended
}

// call is a call of a tool that has not ended.
type call struct {
	acp.Call
	step  int
	began time.Time
}

// budgetEnd is the budget that ended a turn.
type budgetEnd struct {
	stop api.StopReason
	why  string
}

func (e budgetEnd) Error() string { return e.why }

// emit publishes an event, also when the context has ended.
func (r *round) emit(t api.EventType, data any) {
	r.desk.Emit.Emit(context.WithoutCancel(r.caller), t, data)
}

// update takes a report of the agent.
func (r *round) update(u acp.Update) {
	if !r.live.Load() {
		return
	}
	switch u.Kind {
	case acp.Said:
		if r.said.Len() < maxText {
			r.said.WriteString(u.Text)
		}
	case acp.CallBegun, acp.CallChanged:
		r.flush()
		r.changed(u.Call)
	}
}

// flush reports what was said.
func (r *round) flush() {
	text := strings.TrimSpace(r.said.String())
	r.said.Reset()
	if text == "" {
		return
	}
	r.rep.Text = text
	r.notes.Write(loop.Entry{Kind: loop.KindAssistant, Round: r.worker.round, Step: r.steps, Text: text, Model: r.model()})
	r.emit(api.EventSay, api.SayEvent{Round: r.worker.round, Step: r.steps, Text: loop.Prose(text)})
}

// changed takes what is new of a call.
func (r *round) changed(c acp.Call) {
	have := r.calls[c.ID]
	if have == nil {
		if len(r.calls) >= maxCalls {
			return
		}
		r.steps++
		r.rep.Steps++
		have = &call{Call: acp.Call{ID: c.ID}, step: r.steps, began: r.now()}
		r.calls[c.ID], r.order = have, append(r.order, c.ID)
		if b := r.desk.Budget.Steps; b > 0 && r.steps > b {
			r.cancel(budgetEnd{api.StopSteps, fmt.Sprintf("step budget exhausted: %d calls of tools", b)})
		}
	}
	for _, f := range []struct{ to, from *string }{{&have.Title, &c.Title}, {&have.Kind, &c.Kind}, {&have.Output, &c.Output}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if c.Input != "" && c.Input != "{}" {
		have.Input = c.Input
	}
	if c.Status == acp.Completed || c.Status == acp.Failed {
		r.ended(have, c.Status == acp.Failed)
	}
}

// name is the tool of a call for people.
func (c *call) name() string {
	name := loop.ShortLine(c.Kind)
	if name == "" || len(name) > maxToolTag {
		name = "tool"
	}
	return name
}

// short is a call in one line.
func (c *call) short() string { return c.name() + ": " + loop.ShortLine(c.Title) }

// ended reports a call that has ended. An agent whose turn is canceled ends its calls, and may say that they are completed:
// they were cut.
func (r *round) ended(c *call, failed bool) {
	r.drop(c.ID)
	cut := r.ctx.Err() != nil
	failed = failed || cut
	input := c.Input
	if input == "" {
		input = c.Title
	}
	r.notes.Write(loop.Entry{Kind: loop.KindAssistant, Round: r.worker.round, Step: c.step, Model: r.model(), Calls: []loop.EntryCall{{ID: c.ID, Name: c.name(), Input: input}}})
	took := r.now().Sub(c.began).Milliseconds()
	r.notes.Write(loop.Entry{Kind: loop.KindTool, Round: r.worker.round, Step: c.step, Tool: c.name(), CallID: c.ID, Failed: failed, MS: took, Text: c.Output})
	r.emit(api.EventTool, api.ToolEvent{Round: r.worker.round, Step: c.step, Tool: c.name(), Input: loop.ShortLine(input), Output: loop.ShortLine(c.Output), Failed: failed, MS: took})
	if cut {
		r.rep.Skipped = last(append(r.rep.Skipped, c.short()))
	} else {
		r.rep.Completed = last(append(r.rep.Completed, c.short()))
	}
	r.output += int64(len(c.Output))
	if b := r.desk.Budget.OutputBytes; b > 0 && r.output > b {
		r.cancel(budgetEnd{api.StopOutput, fmt.Sprintf("command output budget exhausted: %d bytes printed, the budget is %d", r.output, b)})
	}
}

// drop forgets a call.
func (r *round) drop(id string) {
	delete(r.calls, id)
	for i, have := range r.order {
		if have == id {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// last bounds a list.
func last(list []string) []string { return list[max(0, len(list)-maxList):] }

// end decides why the round stopped.
func (r *round) end(ctx context.Context, turn acp.Turn, err error) {
	r.interrupted()
	r.used(turn)
	var over budgetEnd
	var gone lost
	switch {
	case r.caller.Err() != nil && context.Cause(r.caller) == context.DeadlineExceeded:
		r.stop(api.StopWall, nil, "the deadline of the request passed")
	case r.caller.Err() != nil:
		r.stop(api.StopCanceled, r.caller.Err(), "the run was canceled")
	case errors.As(context.Cause(ctx), &over):
		r.stop(over.stop, nil, over.why)
	case ctx.Err() != nil:
		r.stop(api.StopWall, nil, fmt.Sprintf("time budget exhausted: %s", time.Duration(r.desk.Budget.WallMS)*time.Millisecond))
	case errors.As(err, &gone):
		r.stop(api.StopSandbox, gone.error, gone.Error())
	case err != nil:
		r.stop(api.StopModel, err, err.Error())
	default:
		r.ending(turn.Stop)
	}
}

// ending is the end of a turn that the agent ended itself.
func (r *round) ending(stop acp.StopReason) {
	b := r.desk.Budget
	switch {
	case b.Tokens > 0 && r.tokens > b.Tokens:
		r.stop(api.StopTokens, nil, fmt.Sprintf("token budget exhausted: %d of %d tokens used", r.tokens, b.Tokens))
	case stop == acp.EndTurn:
		r.stop(api.StopEnded, nil, "the agent ended its turn")
	case stop == acp.Refusal:
		r.stop(api.StopDeclined, nil, "the agent declined the request")
	case stop == acp.MaxTokens, stop == acp.MaxRequests:
		r.stop(api.StopEnded, nil, "the agent ended its turn at a limit of its own: "+string(stop))
	default:
		r.stop(api.StopModel, api.Errorf(api.KindUnavailable, "the agent ended its turn with %q", loop.ShortLine(string(stop))), "the agent ended its turn for an unknown reason")
	}
}

// stop sets the reason.
func (r *round) stop(why api.StopReason, err error, text string) {
	r.rep.Stop, r.rep.Err, r.rep.Why = why, err, text
}

// used adds what a turn used, if the agent reported it.
func (r *round) used(turn acp.Turn) {
	r.rep.Usage = api.Usage{Requests: 1, Unpriced: 1}
	if u := turn.Usage; u != nil {
		r.rep.Usage.InputTokens, r.rep.Usage.CachedTokens, r.rep.Usage.OutputTokens = u.Input+u.CachedRead+u.CachedWrite, u.CachedRead, u.Output
		r.tokens += r.rep.Usage.InputTokens + r.rep.Usage.OutputTokens
	}
}
