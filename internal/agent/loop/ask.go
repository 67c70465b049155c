package loop

import (
	"context"
	"strings"

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
	return resp, clip(said, maxSaid), err
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
