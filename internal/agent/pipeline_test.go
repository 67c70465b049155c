package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/test/agenttest"
)

func (r *record) Plan(_ context.Context, p api.ExecutionPlan) error { r.plan = &p; return nil }

func (r *record) Attempt(_ context.Context, a api.Attempt) error { r.attempts[a.N] = a; return nil }

func (r *record) Output(n int) (agent.Whole, agent.Whole, error) {
	return r.output(n, "out"), r.output(n, "err"), nil
}

// run runs a sentence through all roles on the offline model.
func run(t *testing.T, sentence string, attempts int, timeout time.Duration) (agent.Report, *record, *agenttest.Localdir) {
	t.Helper()
	m, err := offline.New()
	if err != nil {
		t.Fatal(err)
	}
	rec, sandboxes := newRecord(t), agenttest.NewLocaldir(t)
	p := agent.New(agent.Config{
		Planner: agent.NewPlanner(m, rec), Coder: agent.NewCoder(m, rec, time.Minute, timeout), Debugger: agent.NewDebugger(m, rec, time.Minute, timeout),
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: rec, InstallTimeout: time.Minute, RunTimeout: timeout}),
		Attempts: attempts, Emit: rec, Record: rec,
	})
	return p.Run(t.Context(), api.PlanRequest{Sentence: sentence}), rec, sandboxes
}

func TestPipeline(t *testing.T) {
	for _, c := range []struct {
		name, sentence string
		attempts       int
		timeout        time.Duration
		outcome        api.Outcome
		passes         int
		stdout         string
	}{
		{"first try", "Write a Python script that computes the mean and median of a list of numbers", 0, 20 * time.Second, api.OutcomeVerified, 1, "mean: 14.8"},
		{"javascript", "Compute the mean and median of a list of numbers in JavaScript", 0, 20 * time.Second, api.OutcomeVerified, 1, "mean: 14.8"},
		{"json", "mean of 1, 2 and 6 as JSON", 0, 20 * time.Second, api.OutcomeVerified, 1, `{"mean": 3}`},
		{"missing import", "Run this Python: print(math.sqrt(9))", 0, 20 * time.Second, api.OutcomeVerified, 2, "3.0"},
		{"syntax error", "Run this:\n```python\nfor i in range(2)\n    print(i)\n```", 0, 20 * time.Second, api.OutcomeVerified, 2, "0\n1"},
		{"over its timeout", "compute the 60th Fibonacci number recursively", 0, 2 * time.Second, api.OutcomeVerified, 2, "1548008755920"},
		{"absent library", "mean of 1, 2 and 6 using numpy", 0, 20 * time.Second, api.OutcomeVerified, 2, "mean: 3"},
		{"two defects", "Run this:\n```python\nx = [16.0]\nprint 'v', math.sqrt(x[0])\n```", 0, 20 * time.Second, api.OutcomeVerified, 3, "v 4.0"},
		{"attempts used up", "Run this:\n```python\nx = [16.0]\nprint 'v', math.sqrt(x[0])\n```", 2, 20 * time.Second, api.OutcomeNeedsHuman, 2, ""},
		{"nobody knows", "Run this Python: print(1/0)", 0, 20 * time.Second, api.OutcomeNeedsHuman, 1, ""},
		{"beyond it", "train a neural network on MNIST", 0, time.Second, api.OutcomeDeclined, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, rec, sandboxes := run(t, c.sentence, c.attempts, c.timeout)
			if rep.Outcome != c.outcome || len(rep.Attempts) != c.passes {
				t.Fatalf("outcome %s after %d attempts, want %s after %d: %+v", rep.Outcome, len(rep.Attempts), c.outcome, c.passes, rep)
			}
			if int(sandboxes.Created.Load()) != c.passes {
				t.Errorf("%d sandboxes for %d attempts", sandboxes.Created.Load(), c.passes)
			}
			seen := map[string]bool{}
			for i, a := range rep.Attempts {
				if key := artifact.Key(a.Artifact); seen[key] {
					t.Error("an attempt came twice")
				} else {
					seen[key] = true
				}
				if a.N != i+1 || a.Result == nil || rec.attempts[a.N].Result == nil || a.StdoutPath == "" {
					t.Errorf("attempt %d is not recorded: %+v", i+1, a)
				}
				if failed := i < len(rep.Attempts)-1; failed && (a.Result.Category == "" || a.Diagnosis == nil) {
					t.Errorf("attempt %d has no category or diagnosis", a.N)
				}
			}
			switch c.outcome {
			case api.OutcomeVerified:
				if got := rep.Attempts[len(rep.Attempts)-1].Result.Stdout; !strings.Contains(got, c.stdout) {
					t.Errorf("stdout %q, want %q in it", got, c.stdout)
				}
			case api.OutcomeNeedsHuman:
				if rep.Diagnosis == "" || rep.Question == "" {
					t.Error("no diagnosis or no question")
				}
			case api.OutcomeDeclined:
				if rep.Error == nil || rep.Error.Hint == "" || rec.count(api.EventAttempt) != 0 {
					t.Errorf("declined without a next step: %+v", rep.Error)
				}
			}
			for _, e := range []struct {
				kind api.EventType
				want int
			}{{api.EventCode, c.passes}, {api.EventAttempt, c.passes}, {api.EventResult, c.passes}} {
				if got := rec.count(e.kind); got != e.want {
					t.Errorf("%d %s events, want %d", got, e.kind, e.want)
				}
			}
		})
	}
}

func TestPipelineCancelGivesAReceipt(t *testing.T) {
	rec, sandboxes := newRecord(t), agenttest.NewLocaldir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := program("print('ready', flush=True)\nimport time\ntime.sleep(60)")
	p := agent.New(agent.Config{
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: cancelOn{rec, api.EventOutput, cancel}}), Emit: rec, Record: rec,
	})
	rep := p.RunArtifact(ctx, a)
	if rep.Outcome != api.OutcomeCanceled || rep.Receipt == nil || rep.Receipt.ProcessesLeft != 0 {
		t.Fatalf("%+v", rep)
	}
	if len(rep.Receipt.Skipped) != 1 || rep.Receipt.Skipped[0] != "run" {
		t.Errorf("receipt %+v", rep.Receipt)
	}
}

// cancelOn cancels when an event of one type comes.
type cancelOn struct {
	agent.Emitter
	kind   api.EventType
	cancel func()
}

func (c cancelOn) Emit(ctx context.Context, t api.EventType, data any) {
	c.Emitter.Emit(ctx, t, data)
	if t == c.kind {
		c.cancel()
	}
}

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
