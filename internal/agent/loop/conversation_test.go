package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// talker calls the tool in turn for as long as calls says, and then answers.
type talker struct {
	calls  int
	asked  int
	reqs   []model.Request
	result string
}

func (m *talker) Name() string { return "talker" }

func (m *talker) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	m.reqs = append(m.reqs, req)
	m.asked++
	r := model.Response{Message: model.Message{Role: model.RoleAssistant, Text: fmt.Sprint("answer ", m.asked)}, Stop: model.StopEnd, Usage: api.Usage{Requests: 1}}
	if last := req.Messages[len(req.Messages)-1]; strings.HasPrefix(last.Text, "[Notice] The history has nearly") {
		r.Message.Text = "A summary of all that was done so far, which is long enough to be one."
		return r, nil
	}
	if m.calls > 0 {
		m.calls--
		r.Message.Calls, r.Stop = []model.Call{{ID: fmt.Sprint("c", m.calls), Name: "look", Input: json.RawMessage(fmt.Sprintf(`{"at":"x%d"}`, m.asked))}}, model.StopTools
	}
	return r, nil
}

// look is a tool with a long result.
type look struct{ size int }

func (look) Spec() model.Tool {
	return model.Tool{Name: "look", Input: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`)}
}

func (l look) Call(_ context.Context, in json.RawMessage) (Result, error) {
	return Result{Text: string(in) + strings.Repeat("look! ", l.size)}, nil
}

type silent struct{}

func (silent) Emit(context.Context, api.EventType, any) {}

// say runs one turn and returns its transcript and the history after it.
func say(t *testing.T, m *talker, past []model.Message, window int64, size int, message string) (*bytes.Buffer, []model.Message, Report) {
	t.Helper()
	var script bytes.Buffer
	l := New(Config{Model: m, System: SystemTalk, Talk: true, Past: past, Window: window, Tools: []Tool{look{size}}, Emit: silent{}, Transcript: &script, Now: time.Now})
	rep := l.Run(t.Context(), message)
	return &script, l.history, rep
}

// TestConversationContinues: what the transcripts of turns say is the history that the loops had, in the same messages, also where it
// was shortened; an answer without a call ends a turn, and without Talk it does not.
func TestConversationContinues(t *testing.T) {
	for name, window := range map[string]int64{"whole": 0, "shortened": 6_000} {
		t.Run(name, func(t *testing.T) {
			var past Past
			how := map[string]bool{}
			for turn, calls := range []int{3, 0, 9, 2, 12, 0} {
				m := &talker{calls: calls}
				message := NextMessage(fmt.Sprint("message ", turn))
				script, history, rep := say(t, m, past.Messages(), window, 400, message)
				if rep.Stop != api.StopEnded || m.asked < calls+1 {
					t.Fatalf("turn %d: %+v", turn, rep)
				}
				if _, err := ReadTranscript(bytes.NewReader(script.Bytes()), func(e Entry) error { how[e.How] = true; return nil }); err != nil {
					t.Fatal(err)
				}
				if err := past.Add(script); err != nil {
					t.Fatal(err)
				}
				if got := past.Messages(); !reflect.DeepEqual(plainly(got), plainly(history)) {
					t.Fatalf("turn %d: %d messages, the loop had %d", turn, len(got), len(history))
				}
				// The newest request is never lost.
				last := m.reqs[len(m.reqs)-1].Messages
				found := false
				for _, h := range last {
					found = found || h.Text == message
				}
				if !found {
					t.Errorf("turn %d: the request is lost", turn)
				}
			}
			if shortened := how["summary"]; shortened != (name == "shortened") {
				t.Errorf("shortened: %v", how)
			}
			text := past.Text(1 << 20)
			if name == "whole" && (!strings.Contains(text, "Person: Request:\nmessage 0") || strings.Contains(text, "look!")) {
				t.Errorf("as text: %.300s", text)
			}
			if n := len(past.Text(100)); n > 400 {
				t.Errorf("the bounded text has %d bytes", n)
			}
		})
	}
	m := &talker{}
	l := New(Config{Model: m, Tools: []Tool{look{1}}, Emit: silent{}})
	if rep := l.Run(t.Context(), "hi"); m.asked != 2 || rep.Stop != api.StopEnded {
		t.Errorf("without Talk: %d answers, %+v", m.asked, rep)
	}
}

// plainly are messages as text.
func plainly(all []model.Message) (out []string) {
	for _, m := range all {
		out = append(out, fmt.Sprintf("%s %s %v %.60s %d %d", m.Role, m.CallID, m.Failed, m.Text, len(m.Text), len(m.Calls)))
	}
	return out
}

// TestConversationCut: a transcript that ends in the middle gives a history in which each call has a result.
func TestConversationCut(t *testing.T) {
	script, _, _ := say(t, &talker{calls: 2}, nil, 0, 5, "go")
	whole := script.Bytes()
	for n := range len(whole) {
		var p Past
		if err := p.Add(bytes.NewReader(whole[:n])); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		open := map[string]bool{}
		for _, m := range p.Messages() {
			for _, c := range m.Calls {
				open[c.ID] = true
			}
			if m.Role == model.RoleTool {
				delete(open, m.CallID)
			}
		}
		if len(open) > 0 {
			t.Fatalf("%d bytes: calls without results: %v", n, open)
		}
	}
	var p Past
	if err := p.Add(strings.NewReader("no transcript\n")); err == nil {
		t.Error("it is one")
	}
}

// TestPastBound: what is too long is cut, and the newest stays.
func TestPastBound(t *testing.T) {
	var p Past
	for i := range 100 {
		p.say(model.Message{Role: model.RoleUser, Text: fmt.Sprint("message ", i)})
		p.say(model.Message{Role: model.RoleAssistant, Text: strings.Repeat("a", MaxPast/50)})
	}
	all := p.Messages()
	if total(all) > MaxPast || len(all) == 0 || all[len(all)-2].Text != "message 99" {
		t.Errorf("%d bytes in %d messages", total(all), len(all))
	}
}

// TestFresh: a fresh conversation has nothing of the one before, and continues its counts. The control continues the history.
func TestFresh(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		m := &talker{calls: 3}
		var script bytes.Buffer
		l := New(Config{Model: m, Talk: true, Budget: api.Budget{Steps: 5}, Tools: []Tool{look{1}}, Emit: silent{}, Transcript: &script})
		if rep := l.Run(t.Context(), "first"); rep.Steps != 4 {
			t.Fatalf("%+v", rep)
		}
		want := 9 // with two messages for each call, an answer and what is said of the budget
		if fresh {
			l.Fresh()
			want = 2
		}
		m.calls = 1
		if rep := l.Run(t.Context(), "second"); rep.Stop != api.StopSteps || rep.Steps != 1 {
			t.Errorf("fresh %v: %+v", fresh, rep)
		}
		got := m.reqs[len(m.reqs)-1].Messages
		if len(got) < want || fresh && (len(got) != want || got[0].Text != "second") {
			t.Errorf("fresh %v: the last request has %q", fresh, plainly(got))
		}
		if !strings.Contains(script.String(), `"round":2,"step":5`) {
			t.Errorf("fresh %v: the counts begin again:\n%s", fresh, script.String())
		}
	}
}
