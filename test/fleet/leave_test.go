package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestDrainMovesTasks drains the node of a task while its model is asked: the round that works ends there, and its gate and the next round are on the other
// node. No answer is asked for twice, and the node that drains has nothing left.
func TestDrainMovesTasks(t *testing.T) {
	tier.Soak(t) // internal/task TestProgramsLeave and internal/task/repo TestLeaves have the rest
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	m := newScripted(t, map[string][]string{"task": {
		shell("sed -i 's/a - b/a * b/' calc.py && echo first > one.txt"), finish("first"),
		shell("sed -i 's/a . b/a + b/' calc.py && cat one.txt > two.txt"), finish("second"),
	}}, func(string) string { return "task" })
	url, dir := serve(t, calculator)
	p := newPair(t, m)
	other := map[string]string{"a": "b", "b": "a"}
	node := map[string]*client.Client{"a": p.lives.Client, "b": p.dies.client}

	reached := m.hold("task 1")
	task := world.Must(p.lives.Client.Tasks.Create(ctx, api.CreateTask{
		Request: "Fix the failing test", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
		Repo: &api.RepoTask{URL: url, Rounds: 2, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Push: true},
	}))(t)
	<-reached
	from := p.nodeOf(t, task.Owner)
	to := other[from]
	followed := make(chan error, 1)
	go func() { // somebody watches it at the node that it leaves
		for e, err := range node[from].Tasks.Events(ctx, task.ID, 0) {
			if err != nil || e.Type == api.EventTaskFinished {
				followed <- err
				return
			}
		}
		followed <- errors.New("the stream ended before the task did")
	}()
	out := world.Must(node[to].DrainNode(ctx, from, admin.DrainNode{}))(t)
	if len(out.Work) != 1 || out.Work[0] != (admin.WorkMove{Task: task.ID, State: admin.MovePending, Reason: "the end of a round"}) {
		t.Errorf("before the end of its round: %+v", out.Work)
	}
	m.goOn()
	began := time.Now()
	until(t, "the task goes to the other node", func(ctx context.Context) bool {
		return p.nodeOf(t, world.Must(p.lives.DB.Task(ctx, task.ID))(t).Owner) == to
	})
	t.Logf("the task was on the other node %s after the answer that ended its round", time.Since(began).Round(100*time.Millisecond))
	task = p.ended(t, task.ID)
	if task.Outcome != api.OutcomeVerified || task.Repo == nil || len(task.Repo.Rounds) != 2 || task.Repo.Delivery == nil || task.Repo.Delivery.Error != nil {
		t.Fatalf("the task is %s: %+v, %+v, %s", task.Outcome, task.Error, task.Repo, task.Diagnosis)
	}
	if len(task.Moves) != 1 || task.Moves[0].From != from || task.Moves[0].To != to || task.Moves[0].Why != api.MoveDrained {
		t.Errorf("its moves: %+v", task.Moves)
	}
	for _, id := range []string{"task 0", "task 1", "task 2", "task 3"} {
		if n := m.count(id); n != 1 {
			t.Errorf("%s was asked %d times", id, n)
		}
	}
	if got := gittest.Git(t, dir, "show", task.Repo.Delivery.Branch+":two.txt"); got != "first" {
		t.Errorf("the second round found %q", got)
	}
	if err := <-followed; err != nil {
		t.Errorf("the stream of events at the node that it left: %v", err)
	}
	until(t, "nothing is left on the node", func(ctx context.Context) bool {
		out = world.Must(node[to].DrainNode(ctx, from, admin.DrainNode{}))(t)
		return len(out.Sandboxes)+out.Node.Capacity.Tasks == 0
	})
	if len(out.Work) != 1 || out.Work[0] != (admin.WorkMove{Task: task.ID, State: admin.MoveDone, To: to}) {
		t.Errorf("the drain says %+v", out.Work)
	}
	events := world.Must(p.lives.DB.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: string(task.ID)}, 0, 1000))(t)
	var types []string
	for _, e := range events {
		types = append(types, string(e.Type))
	}
	if got := strings.Join(types, " "); strings.Count(got, string(api.EventTaskResumed)) != 1 || strings.Count(got, string(api.EventTaskFinished)) != 1 {
		t.Errorf("events: %s", got)
	}
}
