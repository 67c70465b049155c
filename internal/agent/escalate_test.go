package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/test/agenttest"
)

// called is a scripted model with a name of its own.
type called struct {
	*scripted
	name string
}

func (n called) Name() string { return n.name }

// corrected is the Debugger's answer with another program.
func corrected(t *testing.T, src string) string {
	a := program(src)
	return asJSON(t, api.Diagnosis{Category: api.CategoryName, Cause: "a cause", Artifact: &a})
}

func TestEscalation(t *testing.T) {
	bad := "cannot be read"
	declines := api.Errorf(api.KindDeclined, "beyond me")
	for _, c := range []struct {
		name         string
		small, large scripted
		attempts     int
		outcome      api.Outcome
		passes       int
		why          []string // "role@attempt: why" of each escalation
		asked        []int    // requests of small and large
	}{
		{
			name:     "another failure each time stays small",
			small:    scripted{answers: []string{goodPlan, asJSON(t, program("nothing")), corrected(t, "'a' + 1"), corrected(t, "print(7)")}},
			attempts: 3, outcome: api.OutcomeVerified, passes: 3, asked: []int{4, 0},
		},
		{
			name:     "the same failure twice",
			small:    scripted{answers: []string{goodPlan, asJSON(t, program("nothing")), corrected(t, "nothing_else")}},
			large:    scripted{answers: []string{corrected(t, "print(7)")}},
			attempts: 3, outcome: api.OutcomeVerified, passes: 3, asked: []int{3, 1},
			why: []string{"debugger@2: the failure undefined_name occurred again"},
		},
		{
			name:     "the same failure, with another between",
			small:    scripted{answers: []string{goodPlan, asJSON(t, program("nothing")), corrected(t, "'a' + 1"), corrected(t, "nothing_else")}},
			large:    scripted{answers: []string{corrected(t, "still_nothing"), corrected(t, "print(7)")}},
			attempts: 5, outcome: api.OutcomeVerified, passes: 5, asked: []int{4, 2},
			why: []string{"debugger@3: the failure undefined_name occurred again"},
		},
		{
			name:     "nobody knows the failure",
			small:    scripted{answers: []string{goodPlan, asJSON(t, program("raise Exception('odd')"))}},
			large:    scripted{answers: []string{corrected(t, "print(7)")}},
			attempts: 3, outcome: api.OutcomeVerified, passes: 2, asked: []int{2, 1},
			why: []string{"debugger@1: the failure has no known category"},
		},
		{
			name:     "no usable plan",
			small:    scripted{answers: []string{bad, bad, bad, asJSON(t, program("print(7)"))}},
			large:    scripted{answers: []string{goodPlan}},
			attempts: 3, outcome: api.OutcomeVerified, passes: 1, asked: []int{4, 1},
			why: []string{"planner@0: the model returned no valid ExecutionPlan"},
		},
		{
			name:     "the small one declines everything",
			small:    scripted{err: declines},
			large:    scripted{answers: []string{goodPlan, asJSON(t, program("print(7)"))}},
			attempts: 3, outcome: api.OutcomeVerified, passes: 1, asked: []int{2, 2},
			why: []string{"planner@0: the model declined the request", "coder@0: the model declined the request"},
		},
		{
			name:  "both decline",
			small: scripted{err: declines}, large: scripted{err: declines},
			attempts: 3, outcome: api.OutcomeDeclined, asked: []int{1, 1},
			why: []string{"planner@0: the model declined the request"},
		},
		{
			name:     "an error of the way there moves nobody",
			small:    scripted{err: api.Errorf(api.KindUnavailable, "no connection")},
			attempts: 3, outcome: api.OutcomeFailed, asked: []int{1, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			small, large := called{&c.small, "small"}, called{&c.large, "large"}
			rep, rec := runRouted(t, small, large, c.attempts)
			if rep.Outcome != c.outcome || len(rep.Attempts) != c.passes {
				t.Fatalf("%s after %d attempts: %+v", rep.Outcome, len(rep.Attempts), rep)
			}
			if got := escalations(rec); !slices.Equal(got, c.why) {
				t.Errorf("escalations %q, want %q", got, c.why)
			}
			if got := []int{len(c.small.reqs), len(c.large.reqs)}; !slices.Equal(got, c.asked) {
				t.Errorf("asked %v, want %v", got, c.asked)
			}
			// What the larger one was asked is said of it.
			used := map[string]int{}
			for _, e := range rec.all {
				if m, ok := e.data.(api.ModelEvent); ok {
					used[m.Model]++
				}
			}
			if used["small"] != c.asked[0] || used["large"] != c.asked[1] {
				t.Errorf("events name %v", used)
			}
		})
	}
}

// With one model, or none that is larger, nothing moves and nothing is said.
func TestNoEscalationWithOneModel(t *testing.T) {
	for name, large := range map[string]model.Model{"none": nil, "the same": called{&scripted{}, "small"}} {
		m := called{&scripted{answers: []string{goodPlan, asJSON(t, program("nothing")), corrected(t, "nothing_else"), corrected(t, "print(7)")}}, "small"}
		rep, rec := runRouted(t, m, large, 3)
		if rep.Outcome != api.OutcomeVerified || rec.count(api.EventEscalation) != 0 {
			t.Errorf("%s: %s, %v", name, rep.Outcome, escalations(rec))
		}
	}
}

func runRouted(t *testing.T, small, large model.Model, attempts int) (agent.Report, *record) {
	t.Helper()
	rec := newRecord(t)
	p := agent.New(agent.Config{
		Planner: agent.NewPlanner(small, rec), Coder: agent.NewCoder(small, rec, time.Minute, time.Minute),
		Debugger: agent.NewDebugger(small, rec, time.Minute, time.Minute), Large: large, Attempts: attempts,
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: rec}), Emit: rec, Record: rec,
	})
	return p.Run(t.Context(), api.PlanRequest{Sentence: "please print the number seven"}), rec
}

func escalations(rec *record) (out []string) {
	for _, e := range rec.all {
		if x, ok := e.data.(api.EscalationEvent); ok {
			out = append(out, fmt.Sprintf("%s@%d: %s", x.Role, x.Attempt, x.Why))
			if x.From != "small" || x.To != "large" {
				out = append(out, x.From+" to "+x.To)
			}
		}
	}
	return out
}
