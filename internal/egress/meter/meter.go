package meter

import (
	"math"
	"mime"
	"net/http"
	"strings"
	"sync"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/price"
)

// Meter counts one request.
type Meter struct {
	vendor secrets.Model
	path   string
	kind   kind

	mu       sync.Mutex
	sent     int64 // bytes of the request
	declared int64 // its length, if it is known
	request  scanner
	asked    requestUsage

	status   int
	began    bool
	received int64 // bytes of the answer
	document scanner
	stream   *events // nil for an answer that is one document
	stated   answerUsage
}

// New returns the meter of a request. The path is escaped, without a query.
func New(vendor secrets.Model, method, path string) *Meter {
	m := &Meter{vendor: vendor, path: path, kind: kindOf(method, path)}
	m.request.found = func(member string, v value) { m.asked.take(vendor, path, member, v) }
	m.document.found = m.stated.member
	return m
}

// Request reads a part of the body.
func (m *Meter) Request(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent += int64(len(b))
	m.request.scan(b)
}

// Declared says how long the body is, of which a part may not have been read yet.
func (m *Meter) Declared(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.declared = size
}

// Estimate returns the most that the request may use, as far as it is known.
func (m *Meter) Estimate() secrets.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.estimate()
}

func (m *Meter) estimate() secrets.Usage {
	var t price.Tokens
	if m.kind != free {
		t.Input = min(max(m.sent, m.declared), maxInput)
		if m.asked.refers {
			t.Input = max(t.Input, keptInput)
		}
	}
	if m.kind == generates {
		t.Output = m.output(0)
	}
	u := m.priced(m.model(), t)
	u.Estimated = true
	return u
}

// output is the most that the answer may have: what the request asks for, or else a token for each
// byte that was received.
func (m *Meter) output(received int64) int64 {
	n := m.asked.output
	if n == 0 || m.request.state == malformed {
		if n = max(n, usualOutput, min(received, maxOutput)); m.asked.background {
			n = max(n, maxOutput)
		}
	}
	return min(min(n, maxInput)*max(min(m.asked.choices, 128), 1), maxNumber)
}

// model returns the name that the answer has, or else the request.
func (m *Meter) model() string {
	name := m.stated.model
	if name == "" && m.vendor == secrets.Gemini {
		name = named(m.path)
	}
	if name == "" && m.asked.models == 1 && m.request.state != malformed {
		name = m.asked.model
	}
	return strings.ToValidUTF8(name[:min(len(name), maxModel)], "?")
}

// Begin begins the answer.
func (m *Meter) Begin(status int, contentType string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began, m.status = true, status
	if media, _, _ := mime.ParseMediaType(contentType); media == "text/event-stream" {
		m.stream = &events{data: m.event, end: m.endEvent}
	}
}

// Answer reads a part of the answer.
func (m *Meter) Answer(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received += int64(len(b))
	if m.stream != nil {
		m.stream.scan(b)
		return
	}
	m.document.scan(b)
}

// event reads a part of the data of an event.
func (m *Meter) event(b []byte) {
	m.stated.event(b)
	m.document.scan(b)
}

// endEvent ends an event.
func (m *Meter) endEvent() {
	m.stated.endEvent(m.document.state == finished)
	m.document.reset()
}

// Used returns what the request used. ended is whether the answer was read to its end.
func (m *Meter) Used(ended bool) secrets.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kind == free || m.began && !m.billed() && !m.stated.any {
		return secrets.Usage{Model: m.model()}
	}
	if ended && m.stream == nil && m.document.state == finished || m.stream != nil && m.stated.complete(m.vendor, ended) {
		if t, ok := m.stated.tokens(m.vendor); ok {
			return m.priced(m.model(), t)
		}
	}
	u := m.estimate()
	t, ok := m.stated.tokens(m.vendor)
	if m.kind == reads {
		t.Output = 0
	} else {
		t.Output = max(t.Output, m.output(m.received))
	}
	if !ok || t.Input == 0 {
		t.Input, t.Cached, t.Written, t.Kept = u.InputTokens, 0, 0, 0
	}
	u = m.priced(m.model(), t)
	u.Estimated = true
	return u
}

// billed reports whether an answer with this status may have cost something: a request that was
// refused did not.
func (m *Meter) billed() bool {
	switch m.status {
	case http.StatusRequestTimeout, 499:
		return true
	case http.StatusInternalServerError, http.StatusServiceUnavailable, 529:
		return false
	}
	return m.status < 300 || m.status >= 500
}

// priced adds what tokens cost.
func (m *Meter) priced(model string, t price.Tokens) secrets.Usage {
	u := secrets.Usage{Model: model, InputTokens: t.Input, OutputTokens: t.Output}
	table := price.Anthropic()
	switch m.vendor {
	case secrets.OpenAI:
		table = price.OpenAI()
	case secrets.Gemini:
		table = price.Gemini()
	}
	var usd float64
	if p := table.Find(model); p != nil {
		usd = t.Cost(*p)
	} else {
		u.PricedAs, usd = table.Most(t)
	}
	u.MicroUSD = int64(min(math.Ceil(usd*1e6-1e-6), maxNumber))
	return u
}
