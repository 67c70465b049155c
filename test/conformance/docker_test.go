package conformance

import (
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tools"
)

func TestDocker(t *testing.T) {
	engine := dockertest.Start(t)
	bench := newBench(t)
	b, err := docker.New(docker.Config{Dir: bench.run, Layers: bench.layers, Guest: tools.Program(t, "./cmd/hortus-guest"), Host: engine.Host})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Fatalf("the engine runs no sandbox: %s; %s", a.Reason, a.Fix)
	}
	bench.suite(t, b, sandboxtest.Fixture{GuestListed: true})
}
