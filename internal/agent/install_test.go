package agent_test

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/test/agenttest"
)

// TestInstallPhase: the policy of the setup phase is in effect while the install command runs
// and no longer; files of the request come afterwards.
func TestInstallPhase(t *testing.T) {
	allow := func(host string) api.EgressPolicy {
		return api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: host}}}
	}
	setup, none := allow("setup.example"), api.EgressPolicy{}
	pip := api.EgressPolicy{Presets: []string{"pip"}}
	for _, c := range []struct {
		name    string
		install string
		setup   *api.EgressPolicy
		want    []api.EgressPolicy
	}{
		{"no installation", "", nil, nil},
		{"the registry of the language", "ls > seen; echo $PRESET >> seen", nil, []api.EgressPolicy{pip, none}},
		{"as requested", "true", &setup, []api.EgressPolicy{setup, none}},
		{"none", "true", &none, nil},
		{"a failure", "exit 3", nil, []api.EgressPolicy{pip, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			boxes := agenttest.NewLocaldir(t)
			ex := agent.NewExecutor(agent.ExecutorConfig{
				Sandboxes: boxes, Emit: &events{}, Setup: c.setup,
				Inputs: []agent.Input{{Path: "secret.csv", Read: func() ([]byte, error) { return []byte("1\n"), nil }}},
			})
			a := program("import os; print(open('secret.csv').read(), os.path.exists('seen') and open('seen').read(), os.environ.get('PRESET'))")
			a.Install = c.install
			res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: a})
			if err != nil || res.OK != (c.name != "a failure") {
				t.Fatalf("%+v, %v", res, err)
			}
			if !slices.EqualFunc(boxes.Policies, c.want, func(a, b api.EgressPolicy) bool {
				return slices.Equal(a.Presets, b.Presets) && len(a.Rules) == len(b.Rules) && a.Opens() == b.Opens()
			}) {
				t.Errorf("policies %+v, want %+v", boxes.Policies, c.want)
			}
			if c.name == "the registry of the language" {
				if strings.Contains(strings.Split(res.Stdout, "None")[0], "secret.csv") || !strings.Contains(res.Stdout, "main.py") || !strings.Contains(res.Stdout, "pip\n") || !strings.Contains(res.Stdout, "None") {
					t.Errorf("the installation saw %q", res.Stdout)
				}
			}
		})
	}
}

// TestInstallWithoutEgress: a backend that cannot open connections runs the command as it is,
// unless the policy was requested.
func TestInstallWithoutEgress(t *testing.T) {
	setup := api.EgressPolicy{Presets: []string{"pip"}}
	for _, requested := range []*api.EgressPolicy{nil, &setup} {
		boxes := agenttest.NewLocaldir(t)
		boxes.RefuseEgress = api.Errorf(api.KindUnsupported, "this host cannot open connections")
		ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: boxes, Emit: &events{}, Setup: requested})
		a := program("print(1)")
		a.Install = "echo 'ERROR: No matching distribution found for wonder' >&2; exit 1"
		res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: a})
		if requested != nil {
			if api.KindOf(err) != api.KindUnsupported {
				t.Errorf("requested: %v", err)
			}
			continue
		}
		if err != nil || res.Missing != "wonder" || !strings.Contains(res.Detail, "cannot open connections") {
			t.Errorf("%+v, %v", res, err)
		}
	}
}
