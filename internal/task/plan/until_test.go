package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// TestUntil: a plan with a command that ends it has an item for that from the start, which needs all others. No agent is started if the
// command passes then; otherwise agents continue on the whole, and the plan is not verified if they end without it.
func TestUntil(t *testing.T) {
	broken := func(files map[string]string) string {
		if files["whole.txt"] == "" {
			return "make all fails on the merged result: exit code 2."
		}
		return ""
	}
	for name, test := range map[string]struct {
		until   func(map[string]string) string
		agent   agent
		states  string
		outcome api.Outcome
		starts  int
	}{
		"at once": {func(map[string]string) string { return "" }, nil, "a=completed b=completed until=completed", api.OutcomeVerified, 2},
		"later": {broken, func(_ context.Context, j job) (map[string]string, error) {
			r := j.create.Repo
			if r.Until != "make all" || r.Passes != 7 || r.Budget.Tokens != 90 || j.files["a.txt"] == "" || j.files["b.txt"] == "" {
				t.Errorf("it has the command %q, %d passes, the budget %+v and the files %v", r.Until, r.Passes, r.Budget, j.files)
			}
			if !strings.Contains(j.create.Request, "Do all of it") || !strings.Contains(j.create.Request, "exit code 2") {
				t.Errorf("it is asked: %s", j.create.Request)
			}
			return map[string]string{"whole.txt": "whole\n"}, nil
		}, "a=completed b=completed until=completed", api.OutcomeVerified, 3},
		"no progress": {broken, func(context.Context, job) (map[string]string, error) {
			return nil, errors.New("No progress: pass 1 changed nothing.")
		}, "a=completed b=completed until=failed", api.OutcomeNeedsHuman, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"README": "one\n"})
			w.tasks.until = test.until
			for _, id := range []string{"a", "b"} {
				w.tasks.agents[id] = func(_ context.Context, j job) (map[string]string, error) {
					if r := j.create.Repo; r.Until != "" || r.Passes != 0 {
						t.Errorf("item %s has the command of the whole: %q", id, r.Until)
					}
					return map[string]string{id + ".txt": id + "\n"}, nil
				}
			}
			w.tasks.agents["until"] = test.agent
			s := w.daemon(w.db)
			p := w.create(s, []words.Item{adds("a"), adds("b")}, func(c *words.Create) {
				c.Task.Repo.Until, c.Task.Repo.Passes, c.Task.Repo.Budget.Tokens = "make all", 7, 90
			})
			if states(p) != "a=pending b=pending until=pending" || len(p.Items[2].Needs) != 2 {
				t.Errorf("it begins with %s", states(p))
			}
			p = w.done(s, p.ID)
			if states(p) != test.states || p.Outcome != test.outcome || w.tasks.starts != test.starts {
				t.Errorf("%s: %s: %s, %d agents", p.Outcome, p.Why, states(p), w.tasks.starts)
			}
			if failed := test.outcome != api.OutcomeVerified; failed != strings.Contains(p.Why, "the command does not pass: No progress: pass 1 changed nothing") {
				t.Errorf("why: %s", p.Why)
			}
		})
	}
	w := newWorld(t, map[string]string{"README": "one\n"})
	req := words.Create{Items: []words.Item{adds("until")}, Task: api.CreateTask{Request: "x", Repo: &api.RepoTask{URL: w.source, Until: "make"}}}
	if _, err := w.daemon(w.db).Create(t.Context(), req); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "the id until") {
		t.Errorf("an item with its id: %v", err)
	}
}

// TestUntilSkipped: what cannot pass because an item has no result is not worked on.
func TestUntilSkipped(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	w.tasks.until = func(map[string]string) string { return "it fails" }
	w.tasks.agents["b"] = func(context.Context, job) (map[string]string, error) { return nil, errors.New("too hard") }
	s := w.daemon(w.db)
	p := w.done(s, w.create(s, []words.Item{adds("a"), adds("b")}, func(c *words.Create) { c.Task.Repo.Until = "make all" }).ID)
	if states(p) != "a=completed b=failed until=skipped" || p.Outcome != api.OutcomeNeedsHuman {
		t.Errorf("%s: %s", p.Outcome, states(p))
	}
}
