package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/agent/model/replay"
)

// turn is one answer of a scripted model.
type turn struct {
	deltas []model.Delta
	resp   model.Response
	err    error
}

// script is a model that answers with its turns, in order.
type script struct {
	turns []turn
	n     int
}

func (s *script) Name() string { return "script" }

func (s *script) Generate(_ context.Context, _ model.Request, deltas func(model.Delta)) (model.Response, error) {
	t := s.turns[s.n]
	s.n++
	for _, d := range t.deltas {
		if deltas != nil {
			deltas(d)
		}
	}
	return t.resp, t.err
}

func ask(text string) model.Request {
	return model.Request{
		System: "be brief", MaxTokens: 100,
		Messages: []model.Message{{Role: model.RoleUser, Text: text}},
		Output:   &model.Output{Name: "Plan", Schema: json.RawMessage(`{"type":"object"}`)},
		Tools:    []model.Tool{{Name: "look", Description: "looks", Input: json.RawMessage(`{}`)}},
	}
}

func says(text string) model.Response {
	return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: text}, Stop: model.StopEnd, Usage: api.Usage{Requests: 1, InputTokens: 7, OutputTokens: 3, CostUSD: 0.25}}
}

// record asks a model and gives the recording.
func record(t *testing.T, m model.Model, secrets []string, reqs ...model.Request) []byte {
	t.Helper()
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out, Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wrap(m)
	for _, r := range reqs {
		w.Generate(t.Context(), r, nil) // what it gives is compared in the replay
	}
	return out.Bytes()
}

func play(t *testing.T, recording []byte, secrets ...string) *replay.Player {
	t.Helper()
	r, err := replay.Parse(bytes.NewReader(recording))
	if err != nil {
		t.Fatalf("%v\n%s", err, recording)
	}
	return replay.NewPlayer(replay.PlayerConfig{Recording: r, Name: "replay:test", Secrets: secrets})
}

// merged joins what a recording joins.
func merged(list []model.Delta) (out []model.Delta) {
	for _, d := range list {
		if n := len(out); n > 0 && d.Text != "" && out[n-1].Text != "" {
			out[n-1].Text += d.Text
			continue
		}
		out = append(out, d)
	}
	return out
}

func TestReplayAnswersAsTheModelDid(t *testing.T) {
	turns := []turn{
		{resp: says("one")},
		{deltas: []model.Delta{{Text: "tw"}, {Text: "o"}}, resp: says("two")},
		{
			deltas: []model.Delta{
				{Text: "half"},
				{Retry: &model.Retry{Attempt: 1, Of: 3, Wait: 250 * time.Millisecond, Err: api.Errorf(api.KindUnavailable, "overloaded").WithHint("wait")}},
				{Retry: &model.Retry{Attempt: 2, Of: 3, Err: api.Errorf(api.KindInternal, "odd")}},
				{Text: "whole"},
			},
			resp: says("whole"),
		},
		{resp: model.Response{
			Message: model.Message{Role: model.RoleAssistant, Calls: []model.Call{{ID: "c1", Name: "look", Input: json.RawMessage(`{"a":  1`)}}},
			Stop:    model.StopTools,
		}},
		{err: api.Errorf(api.KindExhausted, "too many requests").WithHint("later")},
		{resp: model.Response{Usage: api.Usage{Requests: 2}}, err: api.Errorf(api.KindDeclined, "no <b> & \u2028 no")},
	}
	var reqs []model.Request
	for range turns {
		reqs = append(reqs, ask("the same each time"))
	}
	p := play(t, record(t, &script{turns: turns}, nil, reqs...))
	for i, want := range turns {
		var deltas []model.Delta
		got, err := p.Generate(t.Context(), reqs[i], func(d model.Delta) { deltas = append(deltas, d) })
		if !reflect.DeepEqual(got, want.resp) {
			t.Errorf("turn %d: %+v, want %+v", i, got, want.resp)
		}
		if api.KindOf(err) != api.KindOf(want.err) || api.HintOf(err) != api.HintOf(want.err) || err != nil && err.Error() != want.err.Error() {
			t.Errorf("turn %d: error %v, want %v", i, err, want.err)
		}
		if a, b := asText(t, deltas), asText(t, merged(want.deltas)); a != b {
			t.Errorf("turn %d: deltas %s, want %s", i, a, b)
		}
	}
	_, err := p.Generate(t.Context(), reqs[0], nil)
	if api.KindOf(err) != api.KindNotFound || !strings.Contains(err.Error(), "only 6 times") {
		t.Errorf("asked once more: %v", err)
	}
}

func asText(t *testing.T, deltas []model.Delta) string {
	t.Helper()
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString("|" + d.Text)
		if r := d.Retry; r != nil {
			b.WriteString(r.Wait.String() + r.Err.Error() + api.HintOf(r.Err) + string(api.KindOf(r.Err)))
		}
		if d.Call != nil {
			b.WriteString(d.Call.ID + d.Call.Name + string(d.Call.Input))
		}
	}
	return b.String()
}

func TestPiecesOfACallBecomeOne(t *testing.T) {
	m := &script{turns: []turn{{
		deltas: []model.Delta{
			{Call: &model.Call{ID: "a", Name: "look", Input: json.RawMessage(`{"x"`)}}, {Call: &model.Call{ID: "a", Input: json.RawMessage(`:1}`)}},
			{Call: &model.Call{ID: "b", Name: "look", Input: json.RawMessage(`{}`)}}, {Text: "and"}, {Text: " more"},
		},
		resp: says("x"),
	}}}
	var got []model.Delta
	if _, err := play(t, record(t, m, nil, ask("q"))).Generate(t.Context(), ask("q"), func(d model.Delta) { got = append(got, d) }); err != nil {
		t.Fatal(err)
	}
	if s := asText(t, got); s != `|alook{"x":1}|blook{}|and more` {
		t.Error(s)
	}
}

// The identifiers of a run and addresses do not keep a request from its answer.
func TestWhatDiffersByItselfIsNotCompared(t *testing.T) {
	one, two := api.NewSandboxID(), api.NewSandboxID()
	text := func(id api.SandboxID, at string) string {
		return `File "/run/` + string(id) + `/main.py": <object Foo at ` + at + `>`
	}
	p := play(t, record(t, &script{turns: []turn{{resp: says("fixed")}}}, nil, ask(text(one, "0x7f00aa11bb22"))))
	if got, err := p.Generate(t.Context(), ask(text(two, "0x7f99cc11bb22")), nil); err != nil || got.Message.Text != "fixed" {
		t.Fatalf("%+v %v", got, err)
	}
}

// Nor does how long a tool's command took. What a person asks for is compared to the last digit.
func TestDurationsOfToolsAreNotCompared(t *testing.T) {
	tool := func(text string) model.Request {
		q := ask("fix it")
		q.Messages = append(q.Messages, model.Message{Role: model.RoleTool, CallID: "1", Text: text})
		return q
	}
	for _, c := range []struct {
		one, two string
		same     bool
	}{
		{"Ran 5 tests in 0.004s", "Ran 5 tests in 0.011s", true},
		{"ok  \texample.org/a\t0.010s", "ok  \texample.org/a\t1.5s", true},
		{"# duration_ms 12.25", "# duration_ms 7", true},
		{"1 passed in 12 ms", "1 passed in 3 ms", true},
		{"tried 3, next 0, seconds 2", "tried 3, next 0, seconds 4", true},
		{"Ran 5 tests in 0.004s", "Ran 6 tests in 0.004s", false},
		{"version 1.2", "version 1.3", false},
		{"tried 3, next 0, seconds 2", "tried 4, next 0, seconds 2", false},
	} {
		p := play(t, record(t, &script{turns: []turn{{resp: says("fixed")}}}, nil, tool(c.one)))
		if _, err := p.Generate(t.Context(), tool(c.two), nil); (err == nil) != c.same {
			t.Errorf("%q and %q: %v", c.one, c.two, err)
		}
	}
	p := play(t, record(t, &script{turns: []turn{{resp: says("fixed")}}}, nil, ask("sleep 2s")))
	if _, err := p.Generate(t.Context(), ask("sleep 3s"), nil); err == nil {
		t.Error("another request got the answer")
	}
}

func TestAMissingRequestSaysHowItDiffers(t *testing.T) {
	other := func(edit func(*model.Request)) model.Request {
		r := ask("print seven and then eight")
		edit(&r)
		return r
	}
	rec := record(t, &script{turns: []turn{{resp: says("a")}, {resp: says("b")}}}, nil, ask("something else"), ask("print seven and then eight"))
	for name, c := range map[string]struct {
		req  model.Request
		want []string
	}{
		"a word": {other(func(r *model.Request) { r.Messages[0].Text = "print seven and then nine" }),
			[]string{"request 1 (schema Plan) not found", "closest match is exchange 2", "message 1 differs from byte 27", `then eight"`, `then nine"`, "0 of 2"}},
		"schema":   {other(func(r *model.Request) { r.Output = &model.Output{Name: "Song"} }), []string{`wants "Plan"`, `wants "Song"`}},
		"system":   {other(func(r *model.Request) { r.System = "be long" }), []string{"system prompt differs"}},
		"tokens":   {other(func(r *model.Request) { r.MaxTokens = 3 }), []string{"allows 100 tokens, this one allows 3"}},
		"tools":    {other(func(r *model.Request) { r.Tools = nil }), []string{"tools differ"}},
		"messages": {other(func(r *model.Request) { r.Messages = append(r.Messages, r.Messages[0]) }), []string{"has 1 messages, this one has 2"}},
	} {
		_, err := play(t, rec).Generate(t.Context(), c.req, nil)
		if api.KindOf(err) != api.KindNotFound || api.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in: %v", name, w, err)
			}
		}
	}
	empty := play(t, record(t, &script{}, nil))
	if _, err := empty.Generate(t.Context(), ask("x"), nil); api.KindOf(err) != api.KindNotFound || !strings.Contains(err.Error(), "empty") {
		t.Error(err)
	}
}

// The offline model, of which nothing is made up here.
func TestTheOfflineModelReplays(t *testing.T) {
	off, err := offline.New()
	if err != nil {
		t.Fatal(err)
	}
	req := model.Request{
		Messages: []model.Message{{Role: model.RoleUser, Text: `{"sentence":"print the first 5 primes"}`}},
		Output:   &model.Output{Name: "ExecutionPlan"},
	}
	want, err := off.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := play(t, record(t, off, nil, req)).Generate(t.Context(), req, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

func TestModelsOfTheHeader(t *testing.T) {
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out, Models: map[string]string{"planner": "small", "coder": "big"}})
	if err != nil {
		t.Fatal(err)
	}
	rec.Wrap(&script{turns: []turn{{resp: says("one")}}}).Generate(t.Context(), ask("q"), nil)
	rec.Wrap(&script{turns: []turn{{resp: says("two")}}}).Generate(t.Context(), ask("q"), nil)
	models := play(t, out.Bytes()).Models()
	if len(models) != 2 || models["planner"].Name() != "replay:small" || models["coder"].Name() != "replay:big" {
		t.Fatalf("%v", models)
	}
	for _, c := range []struct{ role, want string }{{"planner", "one"}, {"coder", "two"}} {
		if got, err := models[c.role].Generate(t.Context(), ask("q"), nil); err != nil || got.Message.Text != c.want {
			t.Errorf("%s: %+v %v", c.role, got, err)
		}
	}
}

// broken fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestAnExchangeThatCannotBeWrittenFails(t *testing.T) {
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &broken{left: 600}})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wrap(&script{turns: []turn{{resp: says("a")}, {resp: says(strings.Repeat("long ", 200))}, {resp: says("c")}}})
	if _, err := w.Generate(t.Context(), ask("q"), nil); err != nil {
		t.Fatal(err)
	}
	// After the first failure nothing is written behind what may be half a line.
	for range 2 {
		resp, err := w.Generate(t.Context(), ask("q"), nil)
		if api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), "no space left") || resp.Usage.Requests != 1 {
			t.Fatalf("%+v %v", resp, err)
		}
	}
	if _, err := replay.NewRecorder(replay.RecorderConfig{W: &broken{}}); err == nil {
		t.Error("a header that was not written is no error")
	}
}

func TestAnEndlessAnswerIsNotRecorded(t *testing.T) {
	piece := model.Delta{Text: strings.Repeat("x", 1<<20)}
	endless := turn{resp: says("never mind")}
	for range replay.MaxLine>>20 + 1 {
		endless.deltas = append(endless.deltas, piece)
	}
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wrap(&script{turns: []turn{endless, {resp: says(strings.Repeat("y", replay.MaxLine))}, {resp: says("ok")}}})
	for range 2 {
		if _, err := w.Generate(t.Context(), ask("q"), nil); api.KindOf(err) != api.KindExhausted {
			t.Fatal(err)
		}
	}
	if _, err := w.Generate(t.Context(), ask("q"), nil); err != nil {
		t.Fatal(err)
	}
	if p := play(t, out.Bytes()); out.Len() > 1<<20 || p == nil {
		t.Errorf("%d bytes", out.Len())
	}
}

// canceled is a model whose caller goes away.
type canceled struct{ cancel func() }

func (canceled) Name() string { return "canceled" }
func (c canceled) Generate(ctx context.Context, _ model.Request, _ func(model.Delta)) (model.Response, error) {
	c.cancel()
	return model.Response{}, ctx.Err()
}

func TestACanceledExchangeIsNotRecorded(t *testing.T) {
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := rec.Wrap(canceled{cancel}).Generate(ctx, ask("q"), nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r, err := replay.Parse(&out); err != nil || r.Len() != 0 {
		t.Errorf("%d exchanges, %v", r.Len(), err)
	}
}

// echo answers with what it was asked, in pieces.
type echo struct{}

func (echo) Name() string { return "echo" }
func (echo) Generate(_ context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	for _, r := range req.Messages[0].Text {
		deltas(model.Delta{Text: string(r)})
	}
	return says("re: " + req.Messages[0].Text), nil
}

func TestManyAtOnce(t *testing.T) {
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out})
	if err != nil {
		t.Fatal(err)
	}
	const askers, questions = 8, 20
	all := func(m model.Model) {
		var wg sync.WaitGroup
		for a := range askers {
			wg.Go(func() {
				for q := range questions {
					// Half of the questions are everybody's.
					text := fmt.Sprintf("question %d", q)
					if q%2 == 0 {
						text += fmt.Sprintf(" of %d", a)
					}
					got, err := m.Generate(t.Context(), ask(text), func(model.Delta) {})
					if err != nil || got.Message.Text != "re: "+text {
						t.Errorf("%q gives %+v %v", text, got, err)
					}
				}
			})
		}
		wg.Wait()
	}
	all(rec.Wrap(echo{}))
	p := play(t, out.Bytes())
	all(p)
	if _, err := p.Generate(t.Context(), ask("question 1"), nil); api.KindOf(err) != api.KindNotFound {
		t.Errorf("an answer was left: %v", err)
	}
}
