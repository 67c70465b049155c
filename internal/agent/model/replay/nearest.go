package replay

import (
	"fmt"
	"strings"

	"hortus.dev/api"
)

// nearest finds the exchange whose request is most like q, and says how they
// differ; of several that are alike, the one that was not given yet.
func (p *Player) nearest(q request) (*exchange, string) {
	free := map[int]bool{}
	for _, all := range p.by {
		for _, i := range all {
			free[i] = true
		}
	}
	q = untimed(q)
	var best *exchange
	bestScore := [4]int{-1}
	for i := range p.rec.exchanges {
		e := &p.rec.exchanges[i]
		score := likeness(untimed(e.Request), q)
		if free[i] {
			score[3] = 1
		}
		if better(score, bestScore) {
			best, bestScore = e, score
		}
	}
	if best == nil {
		return nil, ""
	}
	return best, difference(untimed(best.Request), q)
}

func better(a, b [4]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

// likeness counts what two requests have in common: first the purpose, then the
// messages, then the beginning of the first message that differs.
func likeness(a, b request) (score [4]int) {
	if schema(a).Name == schema(b).Name {
		score[0]++
	}
	if a.System == b.System {
		score[0]++
	}
	for i := range min(len(a.Messages), len(b.Messages)) {
		x, y := flat(a.Messages[i]), flat(b.Messages[i])
		if x != y {
			score[2] = common(x, y)
			break
		}
		score[1]++
	}
	return score
}

// difference says in words where q leaves a recorded request.
func difference(recorded, q request) string {
	r, s := schema(recorded), schema(q)
	switch {
	case r.Name != s.Name:
		return fmt.Sprintf("the recorded request wants %q, this one wants %q", api.Clip(r.Name, 64), api.Clip(s.Name, 64))
	case recorded.System != q.System:
		return "the system prompt differs" + at(recorded.System, q.System)
	}
	for i := range min(len(recorded.Messages), len(q.Messages)) {
		x, y := flat(recorded.Messages[i]), flat(q.Messages[i])
		if x != y {
			return fmt.Sprintf("message %d differs", i+1) + at(x, y)
		}
	}
	switch {
	case len(recorded.Messages) != len(q.Messages):
		return fmt.Sprintf("the recorded request has %d messages, this one has %d", len(recorded.Messages), len(q.Messages))
	case r.Schema != s.Schema:
		return "the schema differs" + at(r.Schema, s.Schema)
	case recorded.MaxTokens != q.MaxTokens:
		return fmt.Sprintf("the recorded request allows %d tokens, this one allows %d", recorded.MaxTokens, q.MaxTokens)
	}
	return "the tools differ"
}

func schema(q request) output {
	if q.Output == nil {
		return output{}
	}
	return *q.Output
}

// flat is all of a message in one text.
func flat(m message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", m.Role, m.Text)
	for _, c := range m.Calls {
		fmt.Fprintf(&b, " [%s %s %s]", c.Name, c.ID, c.Input)
	}
	if m.CallID != "" {
		fmt.Fprintf(&b, " (%s)", m.CallID)
	}
	if m.Failed {
		b.WriteString(" failed")
	}
	return b.String()
}

func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// at shows where two texts part.
func at(recorded, asked string) string {
	i := common(recorded, asked)
	from := max(0, i-20)
	return fmt.Sprintf(" from byte %d: recorded %q, requested %q", i, piece(recorded, from), piece(asked, from))
}

func piece(s string, from int) string {
	out := strings.ToValidUTF8(api.Clip(s[from:], 60), "")
	if from > 0 {
		out = "..." + out
	}
	if from+60 < len(s) {
		out += "..."
	}
	return out
}
