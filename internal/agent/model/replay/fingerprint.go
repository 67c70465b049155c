package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/lazyregexp"
)

// What differs between two runs of the same: identifiers of sandboxes, tasks and
// commands, and addresses, as interpreters print them of their objects.
var (
	identifier = lazyregexp.New(`\b[itxo][0-9a-z]{19}\b`)
	address    = lazyregexp.New(`\b0x[0-9a-fA-F]{6,16}\b`)
	// duration is how long something took, as runners of tests print it.
	duration = lazyregexp.New(`\b\d+(?:\.\d+)?(?: ?(?:ms|s|seconds?)\b)|\b(?:duration_ms|seconds) \d+(?:\.\d+)?`)
)

func normalize(s string) string {
	return address.ReplaceAllString(identifier.ReplaceAllString(s, "#"), "0x#")
}

// normalized copies a request into the form that is compared.
func normalized(q request) request {
	q.Messages = append([]message(nil), q.Messages...)
	for i := range q.Messages {
		m := &q.Messages[i]
		m.Text, m.CallID = normalize(m.Text), normalize(m.CallID)
		m.Calls = append([]call(nil), m.Calls...)
		for j := range m.Calls {
			c := &m.Calls[j]
			c.ID, c.Input = normalize(c.ID), normalize(c.Input)
		}
	}
	return q
}

// untimed is the form of a request by which its answer is found: what tools return differs in how
// long it took.
func untimed(q request) request {
	q = normalized(q)
	for i := range q.Messages {
		if m := &q.Messages[i]; m.Role == model.RoleTool {
			m.Text = duration.ReplaceAllString(m.Text, "#s")
		}
	}
	return q
}

// fingerprint names what a request asks, whichever model it goes to.
func fingerprint(q request) string {
	b, err := json.Marshal(normalized(q))
	if err != nil {
		panic(err) // strings and numbers alone
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
