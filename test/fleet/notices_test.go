package fleet

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestNotices: what an operator of a new fleet is told, by daemons: that nodes have no authority yet, no archive, and a listener or none; for how long a node that
// stops keeps its sandboxes; that a node drains already, and how that ends.
func TestNotices(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	b := newBase(t)
	all := b.add(t, b.add(t, nil))
	a := all[0].Client
	if lease := world.Must(all[1].Client.Info(ctx))(t).LeaseMS; lease != 10_000 {
		t.Errorf("a node of two: a lease of %d ms", lease)
	}
	made := world.Sandbox(t, all[1].Client, api.CreateSandbox{Isolation: "container"}) // no other node can be asked
	defer made.Close()
	s := world.Must(a.Sandboxes.Get(ctx, string(made.ID())))(t)
	defer s.Close()
	_, err := s.Kill(ctx)
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "is on node b, which the node that was asked cannot reach: the fleet has no certificate authority") ||
		!strings.Contains(api.HintOf(err), "hortus fleet init") {
		t.Errorf("before the fleet has an authority: %v (%s)", err, api.HintOf(err))
	}
	for _, already := range []bool{false, true} {
		if f := world.Must(a.InitFleet(ctx))(t); !f.Initialized || f.Already != already {
			t.Errorf("%+v", f)
		}
	}
	for _, n := range world.Must(a.FleetNodes(ctx))(t).Nodes {
		if n.Address == "" || !n.Capacity.NoArchive {
			t.Errorf("%+v", n)
		}
	}
	run := world.Must(all[1].Client.Tasks.Create(ctx, api.CreateTask{Artifact: &api.CodeArtifact{Language: "bash", Files: []api.File{{Path: "main.sh", Content: "echo hi"}}, Run: "bash main.sh"}, Sandbox: api.CreateSandbox{Isolation: "container"}}))(t)
	if task := world.Must(a.Tasks.Get(ctx, string(run.ID)))(t); task.Node != "a" && task.Node != "b" {
		t.Errorf("a task is on node %q", task.Node)
	}

	for _, already := range []bool{false, true} {
		if out := world.Must(a.DrainNode(ctx, "b", admin.DrainNode{}))(t); out.Already != already || !out.Node.Capacity.NoArchive {
			t.Errorf("%+v", out)
		}
	}
	all[1].Restart()
	for _, n := range world.Must(a.FleetNodes(ctx))(t).Nodes {
		if n.State != api.NodeReady {
			t.Errorf("after its daemon has started again: %+v", n)
		}
	}
}
