package plan_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// TestOthers: a plan waits for tasks and sessions that may change the same files, is refused, or works at the same time, by its policy. It
// begins when they end.
func TestOthers(t *testing.T) {
	for _, kind := range []string{api.WorkstreamTask, api.WorkstreamSession} {
		for _, policy := range []api.Overlap{"", api.OverlapWait, api.OverlapRefuse, api.OverlapAllow} {
			t.Run(kind+" "+string(policy), func(t *testing.T) {
				w := newWorld(t, map[string]string{"README": "one\n"})
				s := w.daemon(w.db)
				w.work(api.Workstream{Kind: kind, ID: "x1", Touches: []string{"*.txt"}, Since: time.Unix(1, 0)}, api.Workstream{Kind: kind, ID: "x2", Touches: []string{"other/"}, Since: time.Unix(2, 0)})
				p := w.create(s, []words.Item{adds("a")}, func(c *words.Create) { c.Task.Repo.Overlap = policy })
				switch policy {
				case api.OverlapRefuse:
					if p = w.done(s, p.ID); p.Outcome != api.OutcomeFailed || p.Error == nil || p.Error.Kind != api.KindConflict || !strings.Contains(p.Why, kind+" x1") {
						t.Errorf("%s: %s, %v", p.Outcome, p.Why, p.Error)
					}
					return
				case api.OverlapAllow:
				default:
					p = w.until(s, p.ID, "waiting", func(p words.Plan) bool { return p.Why != "" })
					if p.State != words.Queued || p.Why != "waits for "+kind+" x1, which may change the same files" || w.tasks.starts != 0 {
						t.Errorf("%s: %s", p.State, p.Why)
					}
					// The next daemon's plan waits too.
					if err := s.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					s = w.daemon(w.db)
					if n, err := s.Recover(t.Context(), func(api.OwnerID) bool { return true }); n != 1 || err != nil {
						t.Fatal(n, err)
					}
					list, err := s.Workstreams(t.Context(), "", w.source)
					if err != nil || len(list) != 3 || list[2].Kind != api.WorkstreamPlan || !list[2].Waits || !slices.Equal(list[2].WaitsFor, []string{kind + " x1"}) || list[2].Title != "Do all of it" {
						t.Errorf("%v: %+v", err, list)
					}
					if list, err := s.Workstreams(t.Context(), "bob", ""); err != nil || slices.ContainsFunc(list, func(w api.Workstream) bool { return w.Kind == api.WorkstreamPlan }) {
						t.Errorf("another account sees %+v, %v", list, err)
					}
					if w.tasks.starts != 0 {
						t.Error("it has begun")
					}
					w.work()
				}
				if p = w.done(s, p.ID); p.Outcome != api.OutcomeVerified {
					t.Errorf("%s: %s", p.Outcome, p.Why)
				}
			})
		}
	}
}

// TestFilesOfOthers: files that somebody else who works on the repository may change are not for the planner to give, and the planner
// learns of them.
func TestFilesOfOthers(t *testing.T) {
	for _, policy := range []api.Overlap{api.OverlapWait, api.OverlapAllow} {
		w := newWorld(t, map[string]string{"free": "one\n", "a.txt": "one\n"})
		w.tasks.agents["all"] = func(_ context.Context, j job) (map[string]string, error) {
			if j.try == 1 {
				return map[string]string{"a.txt": "a\n"}, wants{"free"}
			}
			return nil, nil
		}
		s := w.daemon(w.db)
		w.work(api.Workstream{Kind: api.WorkstreamTask, ID: "x1", Touches: []string{"/free"}, Since: time.Unix(1, 0)})
		m := &says{text: `{"items":[{"id":"all","request":"r","touches":["a.txt"]}]}`}
		w.model = m
		p := w.create(s, nil, func(c *words.Create) { c.Task.Repo.Overlap, c.Approve = policy, true })
		w.until(s, p.ID, "proposed", func(p words.Plan) bool { return p.State == words.Proposed })
		if text := m.last.Messages[0].Text; !strings.Contains(text, `"taken":["/free"]`) {
			t.Errorf("the planner learns %s", text)
		}
		w.model = &says{text: `{"answer":"grant","reason":"It is needed."}`}
		if _, err := s.Approve(t.Context(), "", p.ID); err != nil {
			t.Fatal(err)
		}
		if policy == api.OverlapWait {
			p = w.until(s, p.ID, "asking", func(p words.Plan) bool { return p.Items[0].Question != "" })
			if !strings.Contains(p.Items[0].Question, "task x1 may change them too") {
				t.Errorf("the question is %q", p.Items[0].Question)
			}
			if _, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "all"}); err != nil {
				t.Fatal(err)
			}
		}
		p = w.done(s, p.ID)
		if a := p.Items[0].Amendments[0]; (a.Answer == "granted") != (policy == api.OverlapAllow) || p.Outcome != api.OutcomeVerified {
			t.Errorf("%s: %+v, %s", policy, a, p.Outcome)
		}
	}
}

// TestLessIsChanged: a plan that waits begins when the items with its files are completed, and not first at the end of the other plan.
func TestLessIsChanged(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	hold := make(chan struct{})
	first := make(chan struct{})
	w.tasks.agents["a"] = func(context.Context, job) (map[string]string, error) {
		<-first
		return map[string]string{"a.txt": "a\n"}, nil
	}
	w.tasks.agents["b"] = func(ctx context.Context, _ job) (map[string]string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return map[string]string{"b.txt": "b\n"}, nil
	}
	s := w.daemon(w.db)
	one := w.create(s, []words.Item{adds("a"), adds("b")}, nil)
	w.until(s, one.ID, "running", func(p words.Plan) bool { return p.State == words.Running })
	two := w.create(s, []words.Item{{ID: "z", Request: "z", Touches: []string{"a.txt"}, Creates: []string{"a.txt"}}}, nil)
	w.until(s, two.ID, "waiting", func(p words.Plan) bool { return strings.Contains(p.Why, "plan "+string(one.ID)) })
	close(first)
	if p := w.done(s, two.ID); p.Outcome != api.OutcomeVerified {
		t.Errorf("the second: %s: %s", p.Outcome, p.Why)
	}
	if p, err := s.Get(t.Context(), "", one.ID); err != nil || p.State != words.Running {
		t.Errorf("the first is %s, %v", p.State, err)
	}
	close(hold)
	w.done(s, one.ID)
}
