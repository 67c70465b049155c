package loop

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

const (
	// maxCalls is the most calls of one answer; what follows is left out.
	maxCalls = 32
	// maxResult is the most of a tool's text that the model reads, in bytes. Tools
	// cut earlier and better.
	maxResult = 128 << 10
	// maxList bounds the lists of a report.
	maxList = 200
)

const (
	cutMark = "[Your answer was truncated here: it exceeded the maximum length. None of its calls was run.]"
	cutTold = "Your last answer exceeded the maximum length. None of its calls was run. Answer again with shorter calls. Write a long file in several calls."
	nudge   = "Your answer has no tool call. Continue with the next call. If you are done or blocked, call finish with a summary."
)

// take follows one answer.
func (r *run) take(resp model.Response) {
	msg := model.Message{Role: model.RoleAssistant, Text: api.Clip(resp.Message.Text, maxSaid)}
	cut := resp.Stop == model.StopLength
	dropped := 0
	if calls := resp.Message.Calls; !cut {
		dropped = max(0, len(calls)-maxCalls)
		msg.Calls = r.named(calls[:len(calls)-dropped])
	}
	if text := strings.TrimSpace(msg.Text); text != "" {
		r.rep.Text = msg.Text
		r.emit(api.EventSay, api.SayEvent{Round: r.round, Step: r.steps, Text: prose(text)})
	}
	if cut {
		msg.Text = strings.TrimSpace(msg.Text + "\n" + cutMark)
	}
	r.history = append(r.history, msg)
	e := Entry{Kind: KindAssistant, Text: msg.Text, Cut: cut, Usage: resp.Usage, Model: r.model.Name()}
	for _, c := range msg.Calls {
		e.Calls = append(e.Calls, EntryCall{ID: c.ID, Name: c.Name, Input: string(c.Input)})
	}
	r.note(e)
	if r.unpriced() {
		r.refuse(msg.Calls, "the run ended")
		return
	}
	switch {
	case cut:
		r.silent = 0
		r.misread(api.Errorf(api.KindInvalid, "the answer was truncated: it is too long"), cutTold)
	case len(msg.Calls) == 0:
		if r.answered(msg.Text) {
			return
		}
		if r.silent++; r.silent > 1 {
			r.stop(api.StopEnded, nil, "the model ended its turn twice without calling finish")
			return
		}
		r.notice(nudge)
	default:
		r.silent = 0
		r.calls(msg.Calls, dropped)
	}
}

// misread counts an answer of which nothing could be used, and tells the model
// what was wrong, where it does not know yet.
func (r *run) misread(err error, tell string) {
	err = api.Errorf(api.KindInvalid, "%s", short(err.Error()))
	if tell != "" {
		r.notice(tell)
	}
	if r.useless.Count(r.caller, r.asker(), err) || r.escalate("the model returned invalid tool calls: "+err.Error()) {
		return
	}
	r.stop(api.StopMalformed, nil, "too many invalid answers in a row: %v", err)
}

// calls runs the calls of an answer in their order, and those side by side that only read. Each gets its
// result, whatever happens.
func (r *run) calls(calls []model.Call, dropped int) {
	good := 0
	var bad error
	for len(calls) > 0 {
		if r.ended() || r.spent(false) {
			r.refuse(calls, "the run ended")
			return
		}
		if r.swapped {
			r.refuse(calls, "the sandbox was lost before")
			break
		}
		group := r.next(calls)
		calls = calls[len(group):]
		r.perform(group)
		for _, p := range group {
			if p.tool == nil {
				bad = api.Errorf(api.KindInvalid, "%s: %s", p.call.Name, p.why)
				r.answer(p.call, Result{Text: p.why, Failed: true}, 0)
				continue
			}
			good++
			r.came(p)
			if p.res.Cut && !r.ended() {
				// The model wrote them for what this call was to leave.
				r.refuse(calls, "a call before it was interrupted")
				calls = nil
			}
		}
	}
	if r.ended() {
		return
	}
	r.tellReplacement()
	if dropped > 0 {
		r.notice(fmt.Sprintf("The maximum is %d calls in one answer. The other %d calls were not run.", maxCalls, dropped))
	}
	if good > 0 {
		r.useless.Reset()
	} else if bad != nil {
		r.misread(bad, "")
		return
	}
	r.circles()
}

// came takes what a call that was run came to.
func (r *run) came(p *pendingCall) {
	res := p.res
	r.used, r.rep.Usage = r.used.Add(res.Usage), r.rep.Usage.Add(res.Usage)
	if res.OutputBytes > 0 {
		r.output += res.OutputBytes
	}
	if p.err != nil {
		// It did not come to its own end; what it said is kept all the same.
		if res.Text == "" {
			res.Text = "[stopped: " + short(p.err.Error()) + "]"
		}
		res.Failed = true
		r.answer(p.call, res, p.took)
		r.list(&r.rep.Skipped, p.call, " (stopped)")
		if !r.gone() && !r.replaceSandbox(p.err) {
			r.stop(api.StopSandbox, p.err, "%s: %v", p.call.Name, p.err)
		}
		return
	}
	r.answer(p.call, res, p.took)
	r.list(&r.rep.Completed, p.call, "")
	if res.Todo != nil {
		r.planned(res.Todo)
	}
	if res.Finish != nil {
		r.rep.Finish = res.Finish
		r.stop(api.StopFinished, nil, "")
		return
	}
	if !res.Waiting && !res.Cut {
		r.repeats.add(p.call, res)
	}
}

// answer puts a result into the history, and tells it.
func (r *run) answer(c model.Call, res Result, took time.Duration) {
	text := strings.ToValidUTF8(res.Text, "\uFFFD")
	if n := len(text) - maxResult; n > 0 {
		text = ends(text, maxResult)
	}
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	images, note := r.images(res.Images)
	text += note
	m := model.Message{Role: model.RoleTool, CallID: c.ID, Text: text, Failed: res.Failed, Images: images}
	r.history = append(r.history, m)
	r.note(Entry{Kind: KindTool, Tool: c.Name, CallID: c.ID, Text: text, Failed: res.Failed, MS: took.Milliseconds()})
	out := res.Short
	out = cmp.Or(out, text)
	r.emit(api.EventTool, api.ToolEvent{
		Round: r.round, Step: r.steps, Tool: c.Name, Input: inputShort(c.Input), Output: short(out),
		Failed: res.Failed, MS: took.Milliseconds(),
	})
}

// refuse answers calls that are not run: a history in which one has no result is
// taken by no vendor.
func (r *run) refuse(calls []model.Call, why string) {
	for _, c := range calls {
		m := model.Message{Role: model.RoleTool, CallID: c.ID, Text: "[not run: " + why + "]", Failed: true}
		r.history = append(r.history, m)
		r.note(Entry{Kind: KindTool, Tool: c.Name, CallID: c.ID, Text: m.Text, Failed: true})
		r.list(&r.rep.Skipped, c, "")
	}
}

// list adds a call to a list of the report.
func (r *run) list(to *[]string, c model.Call, more string) {
	line := c.Name
	if in := inputShort(c.Input); in != "" {
		line += " " + in
	}
	*to = append(*to, line+more)
	if len(*to) > maxList {
		*to = (*to)[1:]
	}
}

// circles looks for calls that repeat themselves: a warning, the larger model, the
// end.
func (r *run) circles() {
	what := r.repeats.found()
	switch {
	case what == "":
	case !r.repeats.warned:
		r.repeats.warn()
		r.notice("You are repeating yourself: " + what + ". Another identical call will return the same result. Read the result again, view another file, or try a different approach. If you are blocked, call finish and set blocked.")
	case r.escalate("the model repeats itself: " + what):
		r.notice("The previous calls repeated without progress: " + what + ". Try a different approach.")
	default:
		r.stop(api.StopLoop, nil, "%s", what)
	}
}

const (
	// sameCalls is how often the same call with the same answer may come in a row,
	// sameCycles how often a cycle of 2 to maxCycle calls.
	sameCalls  = 5
	sameCycles = 4
	maxCycle   = 4
	// After a warning fewer are enough.
	sameCallsWarned  = 3
	sameCyclesWarned = 2

	keptCalls = maxCycle * sameCycles
)

// repeats finds calls that go in circles.
type repeats struct {
	last   []repetition // the last keptCalls
	warned bool
	since  int // calls after the warning
}

// repetition is a call with its answer.
type repetition struct {
	sum  [sha256.Size]byte
	name string
}

func (r *repeats) add(c model.Call, res Result) {
	next := repetition{sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", c.Name, canonical(c.Input), res.Text, res.Failed)), c.Name}
	// Something new is progress, and a warning that helped is forgotten.
	if !slices.ContainsFunc(r.last, func(x repetition) bool { return x.sum == next.sum }) {
		r.warned = false
	}
	r.since++
	r.last = append(r.last, next)
	if n := len(r.last) - keptCalls; n > 0 {
		r.last = r.last[n:]
	}
}

// warn begins a new count, with less patience.
func (r *repeats) warn() { r.warned, r.since = true, 0 }

// found returns what repeats itself, or "".
func (r *repeats) found() string {
	calls, cycles, have := sameCalls, sameCycles, len(r.last)
	if r.warned {
		calls, cycles, have = sameCallsWarned, sameCyclesWarned, min(have, r.since)
	}
	for period := 1; period <= maxCycle; period++ {
		need := cycles * period
		if period == 1 {
			need = calls
		}
		if have < need || !r.periodic(period, need) {
			continue
		}
		if period == 1 {
			return fmt.Sprintf("the same call of %s returned the same result %d times in a row", r.last[len(r.last)-1].name, need)
		}
		return fmt.Sprintf("the same sequence of %d calls returned the same results %d times", period, cycles)
	}
	return ""
}

func (r *repeats) periodic(period, n int) bool {
	tail := r.last[len(r.last)-n:]
	for i := period; i < n; i++ {
		if tail[i].sum != tail[i-period].sum {
			return false
		}
	}
	return true
}

// canonical is a call's input without what its writer is free in: the order of
// fields, and space.
func canonical(raw []byte) string {
	var v any
	if strictJSON(raw, &v) != nil {
		return string(raw)
	}
	return string(mustText(v))
}

// MaxReplaced is how often the sandbox of the tools is replaced in all Runs.
const MaxReplaced = 3

// replacedNotice is what the model is shown of a sandbox that was lost.
const replacedNotice = "The sandbox was lost and has been replaced. The files of /workspace are unchanged; files elsewhere were removed, and programs in the background have ended. " +
	"The call that failed may have been done in part: look at the files before you continue."

// replaceSandbox has the sandbox of the tools replaced after a call found it lost. It reports whether the work can continue, or
// has ended with a reason. The other calls of the same answer were meant for the old sandbox: they are refused.
func (r *run) replaceSandbox(lost error) bool {
	if r.swapped {
		return true
	}
	why := lost
	for r.cfg.Replace != nil && r.replaced < MaxReplaced {
		r.replaced++
		err := r.cfg.Replace(r.ctx, r.replaced, why)
		switch {
		case err == nil:
			r.swapped = true
			return true
		case r.gone():
			return true
		}
		why = err
	}
	if why != lost {
		r.stop(api.StopSandbox, why, "the sandbox was lost (%v) and could not be replaced: %v", lost, why)
		return true
	}
	return false
}

// tellReplacement tells the model of a replacement, when all calls of its answer have results.
func (r *run) tellReplacement() {
	if r.swapped {
		r.swapped = false
		r.notice(replacedNotice)
	}
}
