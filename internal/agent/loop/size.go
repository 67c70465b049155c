package loop

import (
	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

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
