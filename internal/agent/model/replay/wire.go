package replay

import (
	"encoding/json"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// version is that of the format. A recording of another one is refused.
const version = 1

// Bounds of a recording, kept by who writes and by who reads.
const (
	// MaxLine is the longest line, in bytes.
	MaxLine = 16 << 20
	// MaxBytes is the longest recording.
	MaxBytes = 64 << 20
	// MaxExchanges is the most exchanges of one recording.
	MaxExchanges = 10_000

	maxModels = 16
	maxName   = 256
)

// header is the first line.
type header struct {
	Version int `json:"hortusRecording"`
	// Models names the models by what each was for.
	Models map[string]string `json:"models,omitempty"`
}

// exchange is one line after the header. What tools and schemas are made of is
// kept as text: a model may well have sent something that is no JSON.
type exchange struct {
	N           int       `json:"n"`
	Model       string    `json:"model"`
	Fingerprint string    `json:"fingerprint"`
	Request     request   `json:"request"`
	Deltas      []delta   `json:"deltas,omitempty"`
	Response    *response `json:"response,omitempty"`
	Error       *failure  `json:"error,omitempty"`
	// Redacted counts the places where a secret was taken out.
	Redacted int `json:"redacted,omitempty"`
}

type request struct {
	System    string    `json:"system,omitempty"`
	Messages  []message `json:"messages,omitempty"`
	Tools     []tool    `json:"tools,omitempty"`
	Output    *output   `json:"output,omitempty"`
	MaxTokens int       `json:"maxTokens,omitempty"`
}

type message struct {
	Role   model.Role `json:"role"`
	Text   string     `json:"text,omitempty"`
	Calls  []call     `json:"calls,omitempty"`
	CallID string     `json:"callId,omitempty"`
	Failed bool       `json:"failed,omitempty"`
	// Images counts what is not kept: the text says what it was.
	Images int `json:"images,omitempty"`
}

type call struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Input string `json:"input,omitempty"`
}

type tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Input       string `json:"input,omitempty"`
}

type output struct {
	Name   string `json:"name"`
	Schema string `json:"schema,omitempty"`
}

type delta struct {
	Text  string `json:"text,omitempty"`
	Call  *call  `json:"call,omitempty"`
	Retry *retry `json:"retry,omitempty"`
}

type retry struct {
	Attempt int     `json:"attempt"`
	Of      int     `json:"of"`
	WaitMS  int64   `json:"waitMs"`
	Error   failure `json:"error"`
}

type response struct {
	Message message          `json:"message"`
	Stop    model.StopReason `json:"stop,omitempty"`
	Usage   api.Usage        `json:"usage,omitzero"`
}

type failure struct {
	Kind    api.Kind `json:"kind"`
	Message string   `json:"message"`
	Hint    string   `json:"hint,omitempty"`
}

func wireRequest(r model.Request) request {
	w := request{System: r.System, MaxTokens: r.MaxTokens}
	for _, m := range r.Messages {
		w.Messages = append(w.Messages, wireMessage(m))
	}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, tool{t.Name, t.Description, string(t.Input)})
	}
	if r.Output != nil {
		w.Output = &output{r.Output.Name, string(r.Output.Schema)}
	}
	return w
}

func wireMessage(m model.Message) message {
	w := message{Role: m.Role, Text: m.Text, CallID: m.CallID, Failed: m.Failed, Images: len(m.Images)}
	for _, c := range m.Calls {
		w.Calls = append(w.Calls, wireCall(c))
	}
	return w
}

func wireCall(c model.Call) call { return call{c.ID, c.Name, string(c.Input)} }

func wireError(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{Kind: api.KindOf(err), Message: err.Error(), Hint: api.HintOf(err)}
}

func (m message) model() model.Message {
	out := model.Message{Role: m.Role, Text: m.Text, CallID: m.CallID, Failed: m.Failed}
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, c.model())
	}
	return out
}

func (c call) model() model.Call {
	out := model.Call{ID: c.ID, Name: c.Name}
	if c.Input != "" {
		out.Input = json.RawMessage(c.Input)
	}
	return out
}

func (d delta) model() model.Delta {
	out := model.Delta{Text: d.Text}
	if d.Call != nil {
		c := d.Call.model()
		out.Call = &c
	}
	if d.Retry != nil {
		out.Retry = &model.Retry{
			Attempt: d.Retry.Attempt, Of: d.Retry.Of, Wait: time.Duration(d.Retry.WaitMS) * time.Millisecond, Err: d.Retry.Error.err(),
		}
	}
	return out
}

func (f failure) err() error { return &api.Error{Kind: f.Kind, Message: f.Message, Hint: f.Hint} }

// check returns what keeps a line from being one that a recorder wrote.
func (e *exchange) check() error {
	switch {
	case e.Response == nil && e.Error == nil:
		return errors.New("the exchange has neither a response nor an error")
	case e.Redacted < 0 || e.Request.MaxTokens < 0:
		return errors.New("a count is negative")
	case e.Error != nil && !knownKind(e.Error.Kind):
		return errors.New("its error is of an unknown kind")
	}
	for _, m := range e.Request.Messages {
		if !knownRole(m.Role) {
			return errors.New("a message has an unknown role")
		}
	}
	for _, d := range e.Deltas {
		if (d.Text != "") == (d.Call != nil) && d.Retry == nil || d.Retry != nil && (d.Text != "" || d.Call != nil) {
			return errors.New("a delta must have exactly one field")
		}
		if r := d.Retry; r != nil && (r.Attempt < 0 || r.WaitMS < 0 || !knownKind(r.Error.Kind)) {
			return errors.New("a retry is invalid")
		}
	}
	if r := e.Response; r != nil {
		switch r.Stop {
		case "", model.StopEnd, model.StopTools, model.StopLength:
		default:
			return errors.New("its answer has an unknown stop reason")
		}
		if !knownRole(r.Message.Role) {
			return errors.New("its answer has an unknown role")
		}
		if u := r.Usage; u.Requests < 0 || u.InputTokens < 0 || u.CachedTokens < 0 || u.OutputTokens < 0 || u.CostUSD < 0 {
			return errors.New("its usage is negative")
		}
	}
	return nil
}

func knownRole(r model.Role) bool {
	return r == "" || r == model.RoleUser || r == model.RoleAssistant || r == model.RoleTool
}

func knownKind(k api.Kind) bool {
	for _, known := range api.Kinds {
		if k == known {
			return true
		}
	}
	return false
}
