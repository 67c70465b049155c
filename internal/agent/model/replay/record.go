package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/redact"
)

// RecorderConfig is what a recorder is made of.
type RecorderConfig struct {
	// W takes the recording; each exchange is one call of Write. The caller
	// closes it, once no recorded model is asked any more.
	W io.Writer
	// Secrets are values that must not be written, such as keys.
	Secrets []string
	// Models names the models by what each is for; may be nil. It is kept for
	// who replays, see [Player.Models].
	Models map[string]string
}

// Recorder writes down what models are asked and answer.
type Recorder struct {
	redact *redact.Redactor

	mu    sync.Mutex
	w     io.Writer
	n     int
	bytes int64
	err   error // of the first write that failed; the recording ends there
}

// NewRecorder begins a recording.
func NewRecorder(cfg RecorderConfig) (*Recorder, error) {
	r := &Recorder{redact: redact.New(cfg.Secrets), w: cfg.W}
	h := header{Version: version}
	for role, name := range cfg.Models {
		if h.Models == nil {
			h.Models = map[string]string{}
		}
		name, _ = r.redact.Redact(name)
		h.Models[role] = api.Clip(name, maxName)
	}
	return r, r.line(h)
}

// Wrap returns a model that answers as m does and is recorded. An exchange that
// cannot be written fails, because a recording with a hole replays nothing. One
// that its caller canceled is no exchange, and is not written.
func (r *Recorder) Wrap(m model.Model) model.Model { return recorderModel{m, r} }

type recorderModel struct {
	model.Model
	rec *Recorder
}

// Unwrap returns the model that is recorded.
func (m recorderModel) Unwrap() model.Model { return m.Model }

// Generate implements model.Model.
func (m recorderModel) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	var kept collector
	resp, err := m.Model.Generate(ctx, req, func(d model.Delta) {
		kept.add(d)
		if deltas != nil {
			deltas(d)
		}
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		return resp, err
	}
	e := &exchange{Model: m.Name(), Request: wireRequest(req), Deltas: kept.done(), Error: wireError(err)}
	if err == nil || resp.Usage != (api.Usage{}) {
		e.Response = &response{Message: wireMessage(resp.Message), Stop: resp.Stop, Usage: resp.Usage}
	}
	werr := error(nil)
	if kept.size+len(resp.Message.Text) > MaxLine {
		werr = m.rec.tooLong()
	} else {
		werr = m.rec.add(e)
	}
	if werr != nil {
		return model.Response{Usage: resp.Usage}, werr
	}
	return resp, err
}

func (r *Recorder) add(e *exchange) error {
	scrub(r.redact, e)
	e.Fingerprint = fingerprint(e.Request)
	r.mu.Lock()
	defer r.mu.Unlock()
	e.N = r.n + 1
	if err := e.check(); err != nil {
		// What no reader could use is not written.
		return api.Errorf(api.KindInternal, "record an exchange with model %s: %w", e.Model, err)
	}
	if e.N > MaxExchanges {
		return api.Errorf(api.KindExhausted, "the recording is full: the maximum is %d exchanges", MaxExchanges)
	}
	if err := r.line(e); err != nil {
		return err
	}
	r.n++
	return nil
}

func (r *Recorder) tooLong() error {
	return api.Errorf(api.KindExhausted, "the exchange with the model is too long to record: the maximum is %d bytes", MaxLine)
}

// line writes one value. After an error nothing follows: what was written last
// may be half a line.
func (r *Recorder) line(v any) error {
	if r.err != nil {
		return r.err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return api.Errorf(api.KindInternal, "record an exchange with a model: %w", err)
	}
	if b.Len() > MaxLine {
		return r.tooLong()
	}
	if r.bytes+int64(b.Len()) > MaxBytes {
		return api.Errorf(api.KindExhausted, "the recording is full: the maximum is %d bytes", MaxBytes)
	}
	if _, err := r.w.Write(b.Bytes()); err != nil {
		r.err = api.Errorf(api.KindInternal, "write the recording: %w", err)
		return r.err
	}
	r.bytes += int64(b.Len())
	return nil
}

// collector keeps deltas. Pieces of one text, or of one call's input, become one:
// what is shown of them is the same, and no secret hides between two pieces.
type collector struct {
	all  []delta
	open []byte // the text or the input of the last delta, while it grows
	size int
}

func (c *collector) add(d model.Delta) {
	c.size += len(d.Text)
	if d.Call != nil {
		c.size += len(d.Call.Input)
	}
	if c.size > MaxLine {
		c.all, c.open = nil, nil // it cannot be recorded any more
		return
	}
	if d.Text != "" {
		if l := c.last(); l == nil || l.Call != nil || l.Retry != nil {
			c.begin(delta{})
		}
		c.open = append(c.open, d.Text...)
	}
	if d.Call != nil {
		if l := c.last(); l == nil || l.Call == nil || d.Call.ID != "" && d.Call.ID != l.Call.ID {
			c.begin(delta{Call: &call{ID: d.Call.ID, Name: d.Call.Name}})
		}
		c.open = append(c.open, d.Call.Input...)
	}
	if r := d.Retry; r != nil {
		why := wireError(r.Err)
		if why == nil {
			why = &failure{Kind: api.KindUnavailable, Message: "no reason given"}
		}
		c.begin(delta{Retry: &retry{Attempt: r.Attempt, Of: r.Of, WaitMS: r.Wait.Milliseconds(), Error: *why}})
	}
}

func (c *collector) last() *delta {
	if len(c.all) == 0 {
		return nil
	}
	return &c.all[len(c.all)-1]
}

// begin ends the last delta and starts another.
func (c *collector) begin(d delta) {
	c.size += 64
	switch l := c.last(); {
	case l == nil || l.Retry != nil:
	case l.Call != nil:
		l.Call.Input = string(c.open)
	default:
		l.Text = string(c.open)
	}
	c.open = nil
	c.all = append(c.all, d)
}

// done returns all deltas.
func (c *collector) done() []delta {
	c.begin(delta{})
	return c.all[:len(c.all)-1]
}
