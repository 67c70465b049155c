package task

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestCheckAgent: what a program in the sandbox cannot do is refused, and only then.
func TestCheckAgent(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  api.CreateTask
		says string // "" if it is accepted by every agent
	}{
		{"nothing", api.CreateTask{Repo: &api.RepoTask{}}, ""},
		{"a model", api.CreateTask{Model: "anthropic:m", Repo: &api.RepoTask{}}, ""},
		{"another model", api.CreateTask{Model: "offline", Repo: &api.RepoTask{}}, "cannot use the model"},
		{"a larger model", api.CreateTask{Models: api.Models{Large: "anthropic"}, Repo: &api.RepoTask{}}, "one model"},
		{"a schema", api.CreateTask{Schema: json.RawMessage("{}"), Repo: &api.RepoTask{}}, "no tool that takes a value"},
		{"a recording", api.CreateTask{Record: "/r", Repo: &api.RepoTask{}}, "recorded"},
		{"a cost", api.CreateTask{Repo: &api.RepoTask{Budget: api.Budget{CostUSD: 1}}}, "limit its cost"},
		{"preparing", api.CreateTask{Repo: &api.RepoTask{PrepareOnly: true}}, "exclude each other"},
	} {
		for _, agent := range []string{"", "hortus", "claude", "nobody"} {
			req := tt.req
			r := *req.Repo
			r.Agent = agent
			req.Repo = &r
			want := tt.says
			switch agent {
			case "", "hortus":
				want = ""
			case "nobody":
				want = "unknown agent"
			}
			err := checkAgent(req)
			if (err == nil) != (want == "") || err != nil && (api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s with %q: %v, want %q", tt.name, agent, err, want)
			}
		}
	}
	// A program has no models of roles.
	ms, err := lineup{}.agent(api.CreateTask{Repo: &api.RepoTask{Agent: "gemini"}})
	if err != nil || ms.name() != "gemini/gemini-3.1-pro-preview" || ms.names() != (api.Models{}) {
		t.Errorf("%q %+v, %v", ms.name(), ms.names(), err)
	}
	name, err := externalModel(api.CreateTask{Model: "anthropic:m", Repo: &api.RepoTask{Agent: "claude"}})
	if err != nil || name != "claude/m" {
		t.Errorf("%q, %v", name, err)
	}
	if ms, err := (lineup{}).agent(api.CreateTask{Repo: &api.RepoTask{Agent: "claude"}}); err != nil || ms.name() == "" || ms.names() != (api.Models{}) {
		t.Errorf("the models of a program: %q, %+v, %v", ms.name(), ms.names(), err)
	}
}

// TestSetFilePolicy: the globs of the daemon come first, so that a request can except files from them.
func TestSetFilePolicy(t *testing.T) {
	p := api.FilePolicy{OffLimits: []string{"!.env.ci"}, ReadOnly: []string{"docs/"}}
	if err := setFilePolicy(&p, []string{".env*"}); err != nil || !slices.Equal(p.OffLimits, []string{".env*", "!.env.ci"}) || len(p.ReadOnly) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []api.FilePolicy{
		{OffLimits: make([]string, api.MaxFileGlobs+1)}, {ReadOnly: []string{"a//b"}}, {Writable: []string{"!a"}}, {OffLimits: []string{"../x"}},
	} {
		if err := setFilePolicy(&bad, nil); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%d globs: %v", len(bad.OffLimits), err)
		}
	}
}
