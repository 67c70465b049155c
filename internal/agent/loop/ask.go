package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/turn"
)

// maxSaid is the most of an answer's text that is kept while it comes, in bytes.
const maxSaid = 1 << 20

func (l *Loop) asker() turn.Asker {
	return turn.Asker{Role: l.cfg.Role, Model: l.model, Emit: steady{l.cfg.Emit}}
}

// steady tells facts also when the context has ended: the last call is one too.
type steady struct{ Emitter }

func (s steady) Emit(ctx context.Context, t api.EventType, data any) {
	s.Emitter.Emit(context.WithoutCancel(ctx), t, data)
}

// request is what a model is asked after messages.
func (l *Loop) request(m model.Model, messages []model.Message) model.Request {
	if l.pictures > 0 && !model.ReadsImages(m) {
		messages = blind(messages)
	}
	// The copy keeps a model that holds on to its request from seeing it change.
	return model.Request{System: l.cfg.System, Messages: append([]model.Message(nil), messages...), Tools: l.specs}
}

// call asks a model and counts what it used. Said is the text that came, also
// where the answer did not come to its end.
func (r *run) call(m model.Model, req model.Request) (resp model.Response, said string, err error) {
	var text strings.Builder
	asker := r.asker()
	asker.Model = m
	resp, err = asker.Call(r.ctx, req, func(d model.Delta) {
		if d.Retry != nil {
			text.Reset() // what came so far is void
		}
		if text.Len() < maxSaid {
			text.WriteString(d.Text)
		}
	})
	resp.Usage = sane(resp.Usage)
	r.used = r.used.Add(resp.Usage)
	r.rep.Usage = r.rep.Usage.Add(resp.Usage)
	if said = text.String(); said == "" {
		said = resp.Message.Text
	}
	return resp, api.Clip(said, maxSaid), err
}

// ask gets the next answer. It is false if there is none: the Run has ended, or
// the larger model is to be asked.
func (r *run) ask() (model.Response, bool) {
	before := r.estimate()
	resp, said, err := r.call(r.model, r.request(r.model, r.history))
	if err == nil {
		r.learn(resp.Usage)
		return resp, true
	}
	switch {
	case r.gone():
	case api.KindOf(err) == api.KindDeclined:
		if r.escalate("the model declined: " + short(err.Error())) {
			return resp, false
		}
		r.stop(api.StopDeclined, nil, "%v", err)
	case api.KindOf(err) == api.KindInvalid && r.unsee():
		// A file that only begins like an image is refused by vendors.
		return resp, false
	case api.KindOf(err) == api.KindInvalid && r.squeeze(before):
		// A window that is smaller than was said shows in a refused request.
		return resp, false
	default:
		r.stop(api.StopModel, err, "%v", err)
	}
	r.partial(said, resp)
	return resp, false
}

// partial keeps what was said of an answer that was not whole. It is words and
// nothing else: no call of it is kept or run.
func (r *run) partial(said string, resp model.Response) {
	if strings.TrimSpace(said) == "" {
		return
	}
	r.history = append(r.history, model.Message{Role: model.RoleAssistant, Text: said})
	r.note(Entry{Kind: KindAssistant, Text: said, Cut: true, Usage: resp.Usage, Model: r.model.Name()})
	r.rep.Text = said
	r.emit(api.EventSay, api.SayEvent{Round: r.round, Step: r.steps + 1, Text: prose(said), Cut: true})
}

// escalate moves to the larger model and says so. It is false if there is none,
// or the loop is there already.
func (r *run) escalate(why string) bool {
	if r.moved || r.cfg.Large == nil || r.cfg.Large.Name() == r.model.Name() {
		return false
	}
	r.emit(api.EventEscalation, api.EscalationEvent{
		Role: r.cfg.Role, From: r.model.Name(), To: r.cfg.Large.Name(), Why: why,
	})
	r.note(Entry{Kind: KindEscalation, Text: why, Model: r.cfg.Large.Name()})
	r.model, r.moved = r.cfg.Large, true
	r.useless.Reset()
	r.repeats = repeats{}
	r.silent = 0
	return true
}

const (
	// lastSteps is when the end of the steps is announced.
	lastSteps = 3
	// nearly is the part of any other budget after which its end is.
	nearly = 0.9
)

// tokens are what is counted against the budget.
func (l *Loop) tokens() int64 { return l.used.InputTokens + l.used.OutputTokens }

// wallLeft is what is left of the wall clock, at least 1 ns.
func (l *Loop) wallLeft() time.Duration {
	return max(1, time.Duration(l.cfg.Budget.WallMS)*time.Millisecond-l.cfg.Now().Sub(l.start))
}

// Left is what is left of the budgets. A field without a bound is 0, and one that
// is used up is below 0.
func (l *Loop) Left() api.Budget {
	b := l.cfg.Budget
	out := api.Budget{}
	if b.Steps > 0 {
		out.Steps = left(b.Steps, l.steps)
	}
	if b.Tokens > 0 {
		out.Tokens = left(b.Tokens, l.tokens())
	}
	if b.CostUSD > 0 {
		if out.CostUSD = b.CostUSD - l.used.CostUSD; out.CostUSD <= 0 {
			out.CostUSD = -1
		}
	}
	if b.WallMS > 0 {
		out.WallMS = left(b.WallMS, l.cfg.Now().Sub(l.start).Milliseconds())
	}
	if b.OutputBytes > 0 {
		out.OutputBytes = left(b.OutputBytes, l.output)
	}
	return out
}

func left[N int | int64](budget, used N) N {
	if used >= budget {
		return -1
	}
	return budget - used
}

// spent stops where a budget is used up, or a context ended. Steps are answers:
// the calls of the last one still run.
func (r *run) spent(asking bool) bool {
	if r.gone() {
		return true
	}
	b, left := r.cfg.Budget, r.Left()
	switch {
	case r.unpriced():
	case asking && left.Steps < 0:
		r.stop(api.StopSteps, nil, "step budget exhausted: %d steps", b.Steps)
	case left.Tokens < 0:
		r.stop(api.StopTokens, nil, "token budget exhausted: %d of %d tokens used", r.tokens(), b.Tokens)
	case left.CostUSD < 0:
		r.stop(api.StopCost, nil, "cost budget exhausted: $%.4f of $%.4f used", r.used.CostUSD, b.CostUSD)
	case left.WallMS < 0:
		r.stop(api.StopWall, nil, "time budget exhausted: %s", time.Duration(b.WallMS)*time.Millisecond)
	case left.OutputBytes < 0:
		r.stop(api.StopOutput, nil, "command output budget exhausted: %d bytes printed, the budget is %d", r.output, b.OutputBytes)
	}
	return r.ended()
}

// unpriced stops where there is a bound on cost and a call whose cost nobody knows.
func (r *run) unpriced() bool {
	if r.cfg.Budget.CostUSD <= 0 || r.used.Unpriced == 0 {
		return false
	}
	name := r.model.Name()
	if r.cfg.Small != nil {
		name += " or " + r.cfg.Small.Name()
	}
	r.stop(api.StopCost, nil, "the price of model %s is unknown, so a cost limit of $%.2f cannot be enforced", name, r.cfg.Budget.CostUSD)
	return true
}

// announce informs the model once about each budget that is near its end.
func (r *run) announce() {
	b := r.cfg.Budget
	var near []string
	say := func(name string, is bool, format string, args ...any) {
		if is && !r.told[name] {
			r.told[name] = true
			near = append(near, fmt.Sprintf(format, args...))
		}
	}
	most := func(used, of float64) bool { return of > 0 && used >= nearly*of }
	stepsLeft := b.Steps - r.steps
	say("steps", b.Steps > lastSteps && stepsLeft <= lastSteps, "%d answers remain", stepsLeft)
	say("tokens", most(float64(r.tokens()), float64(b.Tokens)), "90 %% of the tokens are used")
	say("cost", most(r.used.CostUSD, b.CostUSD), "90 %% of the cost limit is used")
	say("wall", most(float64(r.cfg.Now().Sub(r.start).Milliseconds()), float64(b.WallMS)), "90 %% of the time is used")
	say("output", most(float64(r.output), float64(b.OutputBytes)), "90 %% of the command output limit is used")
	if len(near) > 0 {
		r.notice("The budget is nearly exhausted: " + strings.Join(near, "; ") +
			". Leave the files in a working state now. Then call finish. Say in the summary what is done and what is not.")
	}
}

const (
	// bytesPerToken is low, so that a guess is rather too large than too small.
	bytesPerToken = 3
	// perMessage is what a message costs beside its text, in tokens.
	perMessage = 8
)

// sizes is what is known of how many tokens the history has: what the model
// counted, up to some message. What came after is guessed.
type sizes struct {
	tokens   int64
	messages int
	// again is the size from which shortening is worth another try; squeezed says
	// that a refused request was shortened already.
	again    int64
	squeezed bool
}

// learn takes what the model counted for an answer to the history so far. The
// answer will be one more message. A call that was made more than once tells the
// tokens of all tries, which say nothing; nor does a count that no text of this
// length can have.
func (l *Loop) learn(u api.Usage) {
	if u.Requests != 1 || u.InputTokens <= 0 || u.InputTokens > 3*bytesPerToken*(l.prefix()+guess(l.history))+2000 {
		return
	}
	l.size.tokens, l.size.messages = u.InputTokens+u.OutputTokens, len(l.history)+1
}

// sane bounds what a server says that was used: it must not give back what was
// used before, or overflow a sum.
func sane(u api.Usage) api.Usage {
	const most = 1 << 40
	u.Requests, u.Unpriced = min(max(u.Requests, 0), 1<<20), min(max(u.Unpriced, 0), 1<<20)
	for _, n := range []*int64{&u.InputTokens, &u.CachedTokens, &u.OutputTokens} {
		*n = min(max(*n, 0), most)
	}
	if !(u.CostUSD >= 0) { // NaN too
		u.CostUSD = 0
	}
	return u
}

// estimate is the size of the next request, in tokens.
func (l *Loop) estimate() int64 {
	if n := l.size.messages; n > 0 && n <= len(l.history) {
		return l.size.tokens + guess(l.history[n:])
	}
	return l.prefix() + guess(l.history)
}

// prefix guesses what stands before the messages.
func (l *Loop) prefix() int64 {
	n := len(l.cfg.System)
	for _, t := range l.specs {
		n += len(t.Name) + len(t.Description) + len(t.Input)
	}
	return int64(n)/bytesPerToken + perMessage*int64(1+len(l.specs))
}

func guess(all []model.Message) (tokens int64) {
	for _, m := range all {
		tokens += perMessage + int64(weight(m))/bytesPerToken
	}
	return tokens
}

// weight is what of a message grows with its text, in bytes.
func weight(m model.Message) int {
	n := len(m.Text) + len(m.CallID) + len(m.Images)*imageTokens*bytesPerToken
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Name) + len(c.Input)
	}
	return n
}
