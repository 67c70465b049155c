package remote

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/daytona"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/daytonatest"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// atDaytona: the whole suite in soak, and one sandbox from its start to its end in each run.
func atDaytona(t *testing.T, w *world.World, _ string) {
	d, b := daytonatest.Start(t, w.Client), newBench(t)
	at := func(domain string) *daytona.Service {
		s, err := daytona.New(daytona.Config{APIURL: d.URL + "/api", Domains: []string{domain}, Key: keyed(daytonatest.Key)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	s := at("127.0.0.1")
	backend := b.backend(t, s, false)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Env: map[string]string{"GIVEN": "value"}}
	m, err := backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "echo $GIVEN; pwd"); got != "value\n/workspace\n" {
		t.Errorf("output %q", got)
	}
	if left := boxes(t, s, b, spec.ID); len(left) != 2 {
		t.Errorf("a live sandbox is found as %q", left)
	}
	if proof, err := m.Kill(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("kill: %+v, %v", proof, err)
	}
	if left := boxes(t, s, b, spec.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	// An address of another domain would get the API key.
	spec.ID = api.NewSandboxID()
	if _, err := b.backend(t, at("daytona.io"), false).Start(t.Context(), spec); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "which is not of daytona.io") {
		t.Errorf("an address of another domain: %v", err)
	}
	t.Run("documented", func(t *testing.T) { sandboxtest.Documented(t, backend, backend.Probe(t.Context())) })
	tier.Soak(t)
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		return sandboxtest.Fixture{
			Backend: backend, Store: b.layers, Workspaces: b.workspaces,
			Leftovers: func(id api.SandboxID) []string { return boxes(t, s, b, id) },
		}
	})
}
