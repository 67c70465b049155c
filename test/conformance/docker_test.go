package conformance

import (
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

func TestDocker(t *testing.T) {
	tier.AnyUser(t)
	engine := dockertest.Start(t)
	bench := newBench(t)
	b, err := docker.New(docker.Config{Dir: bench.run, Layers: bench.layers, Workspaces: bench.workspaces, Guest: tools.Program(t, "./cmd/hortus-guest"), Host: engine.Host})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Fatalf("the engine runs no sandbox: %s; %s", a.Reason, a.Fix)
	}
	if tier.Soaking() {
		bench.suite(t, b, sandboxtest.Fixture{GuestListed: "root"})
		return
	}
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{GuestListed: "root"}), Report: b.Probe(t.Context())}
	t.Run("documented", func(t *testing.T) { sandboxtest.Documented(t, b, suite.Report) })
	ran := 0
	for _, c := range sandboxtest.Cases() {
		if !slices.Contains(inCI, c.Name) {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Check(t, suite)
		})
	}
	if ran != len(inCI) {
		t.Errorf("%d cases ran, want %d", ran, len(inCI))
	}
}

// inCI are the cases that CI runs on Docker: those of the backend's own work. The guest and the stage are
// those of containers; every case runs in the soak tier.
var inCI = []string{
	"report/complete", "report/refuses-what-it-lacks", "life/start-and-kill", "life/pause", "life/ends-by-itself",
	"life/canceled-start-leaves-nothing", "limit/memory", "limit/processes", "wall/guest-out-of-reach", "wall/host-files-are-out-of-sight",
	"wall/sandboxes-do-not-see-each-other", "wall/no-network",
	"workspace/everything-can-be-changed", "workspace/outlives-its-sandbox",
	"save/what-was-written-is-there",
}
