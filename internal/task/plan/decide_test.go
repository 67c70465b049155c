package plan_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/agent/model"
)

// says is a model that answers each request with the same text, and keeps the last one.
type says struct {
	text  string
	err   error
	calls int
	last  model.Request
}

func (m *says) Name() string { return "says" }

func (m *says) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	m.calls, m.last = m.calls+1, req
	return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: m.text}, Stop: model.StopEnd, Usage: api.Usage{Requests: 1, InputTokens: 10}}, m.err
}

// amendments are the answers in the events of a plan.
func (w *world) amendments(p words.Plan) (out []words.AmendmentEvent) {
	w.t.Helper()
	for e, err := range w.log.Follow(context.Background(), api.Stream{Kind: words.Stream, ID: string(p.ID)}, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		var v words.AmendmentEvent
		if e.Type == words.EventAmendment && json.Unmarshal(e.Data, &v) == nil && v.Answer != "" {
			out = append(out, v)
		}
		if e.Type == words.EventFinished {
			break
		}
	}
	return out
}

// TestPlannerAnswers: the planner's model decides about files of nobody. What it says is yes or no for exactly these files, and nothing
// else: a person is asked if it says anything else, and no answer gives what is off limits.
func TestPlannerAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		model   says
		asks    []string
		person  bool // is asked, and denies
		granted bool
		by, why string
		calls   int
	}{
		"grant":      {says{text: `{"answer":"grant","reason":"It is needed."}`}, []string{"free"}, false, true, "the planner (says)", "It is needed.", 1},
		"deny":       {says{text: `{"answer":"deny","reason":"It has nothing to do with it."}`}, []string{"free"}, false, false, "the planner (says)", "It has nothing to do with it.", 1},
		"nonsense":   {says{text: `Of course! Take all files of the repository.`}, []string{"free"}, true, false, "a person", "", 3},
		"more":       {says{text: `{"answer":"grant","reason":"x","paths":["**"]}`}, []string{"free"}, true, false, "a person", "", 3},
		"no reason":  {says{text: `{"answer":"grant","reason":" "}`}, []string{"free"}, true, false, "a person", "", 3},
		"no answer":  {says{err: api.Errorf(api.KindDenied, "the key was revoked")}, []string{"free"}, true, false, "a person", "", 1},
		"off limits": {says{text: `{"answer":"grant","reason":"x"}`}, []string{"free", "secret.env"}, false, false, "the file policy", "secret.env: it is off limits by the rule *.env", 0},
		"read only":  {says{text: `{"answer":"grant","reason":"x"}`}, []string{"fixed"}, false, false, "the file policy", "fixed: it is read-only by the rule fixed", 0},
		"git":        {says{text: `{"answer":"grant","reason":"x"}`}, []string{"sub/.GIT/config"}, false, false, "the file policy", "sub/.GIT/config belongs to git or to Hortus", 0},
		"hortus":     {says{text: `{"answer":"grant","reason":"x"}`}, []string{".hortus/context/a.md"}, false, false, "the file policy", ".hortus/context/a.md belongs to git or to Hortus", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"free": "one\n", "other": "one\n", "fixed": "one\n"})
			m := test.model
			w.model = &m
			w.tasks.agents["a"] = func(_ context.Context, j job) (map[string]string, error) {
				if j.try == 1 {
					return map[string]string{"a.txt": "a\n"}, wants(test.asks)
				}
				want := []string{"a.txt"}
				if test.granted {
					want = append(want, "/free")
				}
				if got := j.create.Repo.FilePolicy.Writable; !slices.Equal(got, want) && !slices.Equal(got, append([]string{"/a.txt"}, want[1:]...)) {
					t.Errorf("it may write %v, want %v", got, want)
				}
				if test.why != "" && !test.granted && !strings.Contains(j.create.Request, strings.TrimSuffix(test.why, ".")) {
					t.Errorf("it does not learn why: %s", j.create.Request)
				}
				return nil, nil
			}
			s := w.daemon(w.db)
			p := w.create(s, []words.Item{adds("a")}, func(c *words.Create) {
				c.Task.Model, c.Task.Repo.FilePolicy = "says", api.FilePolicy{OffLimits: []string{"*.env"}, ReadOnly: []string{"fixed"}}
			})
			if test.person {
				p := w.until(s, p.ID, "asking", func(p words.Plan) bool { return len(p.Items) > 0 && p.Items[0].Question != "" })
				if q := p.Items[0].Question; !strings.Contains(q, "the planner (says) gave no answer") {
					t.Errorf("the question is %q", q)
				}
				if _, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "a"}); err != nil {
					t.Fatal(err)
				}
			}
			p = w.done(s, p.ID)
			if p.Outcome != api.OutcomeVerified || m.calls != test.calls || p.Usage.InputTokens != int64(10*test.calls) {
				t.Errorf("%s: %s, %d calls, usage %+v", p.Outcome, states(p), m.calls, p.Usage)
			}
			a := w.amendments(p)
			if len(a) != 1 || a[0].By != test.by || a[0].Reason != test.why || (a[0].Answer == "granted") != test.granted || a[0].Item != "a" {
				t.Errorf("the event says %+v", a)
			}
			if text := m.last.Messages; m.calls > 0 && !strings.Contains(text[0].Text, `{"path":"free","bytes":4}`) {
				t.Errorf("the model is asked %s", text[0].Text)
			}
		})
	}
}
