package replay

import (
	"encoding/json"
	"strings"

	"hortus.dev/internal/platform/redact"
)

// scrub takes secrets out of an exchange, but for its numbers and closed words.
func scrub(r *redact.Redactor, e *exchange) {
	text := func(p *string) {
		s, n := r.Redact(strings.ToValidUTF8(*p, "\uFFFD"))
		*p = s
		e.Redacted += n
	}
	fail := func(f *failure) {
		if f != nil {
			text(&f.Message)
			text(&f.Hint)
		}
	}
	text(&e.Model)
	scrubRequest(&e.Request, text)
	for i := range e.Deltas {
		d := &e.Deltas[i]
		text(&d.Text)
		if d.Call != nil {
			scrubCall(d.Call, text)
		}
		if d.Retry != nil {
			fail(&d.Retry.Error)
		}
	}
	if e.Response != nil {
		scrubMessage(&e.Response.Message, text)
	}
	fail(e.Error)
}

func scrubRequest(q *request, text func(*string)) {
	text(&q.System)
	for i := range q.Messages {
		scrubMessage(&q.Messages[i], text)
	}
	for i := range q.Tools {
		text(&q.Tools[i].Name)
		text(&q.Tools[i].Description)
		text(&q.Tools[i].Input)
	}
	if q.Output != nil {
		text(&q.Output.Name)
		text(&q.Output.Schema)
	}
}

func scrubMessage(m *message, text func(*string)) {
	text(&m.Text)
	text(&m.CallID)
	for i := range m.Calls {
		scrubCall(&m.Calls[i], text)
	}
}

func scrubCall(c *call, text func(*string)) {
	text(&c.ID)
	text(&c.Name)
	valid := json.Valid([]byte(c.Input))
	text(&c.Input)
	// A value that stood without quotes leaves no JSON behind; the model's own
	// mistakes stay as they are.
	if valid && !json.Valid([]byte(c.Input)) {
		c.Input = `"` + redact.Mark + `"`
	}
}
