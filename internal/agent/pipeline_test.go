package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/artifact"
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
	rec, boxes := newRecord(t), agenttest.NewLocaldir(t)
	p := agent.New(agent.Config{
		Planner: agent.NewPlanner(m, rec), Coder: agent.NewCoder(m, rec, time.Minute, timeout), Debugger: agent.NewDebugger(m, rec, time.Minute, timeout),
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: boxes, Emit: rec, InstallTimeout: time.Minute, RunTimeout: timeout}),
		Attempts: attempts, Emit: rec, Record: rec,
	})
	return p.Run(t.Context(), api.PlanRequest{Sentence: sentence}), rec, boxes
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
			rep, rec, boxes := run(t, c.sentence, c.attempts, c.timeout)
			if rep.Outcome != c.outcome || len(rep.Attempts) != c.passes {
				t.Fatalf("outcome %s after %d attempts, want %s after %d: %+v", rep.Outcome, len(rep.Attempts), c.outcome, c.passes, rep)
			}
			if int(boxes.Created.Load()) != c.passes {
				t.Errorf("%d sandboxes for %d attempts", boxes.Created.Load(), c.passes)
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
	rec, boxes := newRecord(t), agenttest.NewLocaldir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := program("print('ready', flush=True)\nimport time\ntime.sleep(60)")
	p := agent.New(agent.Config{
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: boxes, Emit: cancelOn{rec, api.EventOutput, cancel}}), Emit: rec, Record: rec,
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
