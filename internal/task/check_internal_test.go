package task

import (
	"context"
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

// TestCheckUntil: passes exclude what has another meaning of a round, and their command is the gate if there is no other.
func TestCheckUntil(t *testing.T) {
	for _, tt := range []struct {
		name   string
		repo   api.RepoTask
		schema bool
		says   string // "" if it is accepted
	}{
		{"a command", api.RepoTask{Until: "make"}, false, ""},
		{"no command", api.RepoTask{}, true, ""},
		{"the most passes", api.RepoTask{Until: "make", Passes: api.MaxPasses}, false, ""},
		{"too many passes", api.RepoTask{Until: "make", Passes: api.MaxPasses + 1}, false, "between 1 and 100"},
		{"fewer than none", api.RepoTask{Until: "make", Passes: -1}, false, "between 1 and 100"},
		{"passes alone", api.RepoTask{Passes: 1}, false, "without until"},
		{"spaces", api.RepoTask{Until: " "}, false, "empty"},
		{"a NUL byte", api.RepoTask{Until: "a\x00b"}, false, "NUL"},
		{"a long command", api.RepoTask{Until: strings.Repeat("x", maxVerify+1)}, false, "too long"},
		{"rounds", api.RepoTask{Until: "make", Rounds: 1}, false, "until and rounds exclude"},
		{"candidates", api.RepoTask{Until: "make", Best: &api.BestOf{Of: 2}}, false, "until and best exclude"},
		{"a mutant", api.RepoTask{Until: "make", Mutant: "x"}, false, "until and mutant exclude"},
		{"preparing", api.RepoTask{Until: "make", PrepareOnly: true}, false, "until and prepareOnly exclude"},
		{"a dry run", api.RepoTask{Until: "make", GateOnly: true}, false, "until and gateOnly exclude"},
		{"a schema", api.RepoTask{Until: "make"}, true, "until and schema exclude"},
	} {
		err := checkUntil(&tt.repo, tt.schema)
		if (err == nil) != (tt.says == "") || err != nil && (api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	for verify, want := range map[string]string{"": "make", "go test ./...": "go test ./..."} {
		r := api.RepoTask{Until: "make", Verify: verify}
		if err := checkUntil(&r, false); err != nil || r.Verify != want || r.Passes != api.DefaultPasses {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestSavedIsolation: the default isolation of repositories holds for a request that names none, and repositories with different
// ones are refused.
func TestSavedIsolation(t *testing.T) {
	defaults := map[string]string{"/a": "container", "/b": "gvisor", "/also-a": "container", "/none": ""}
	e := &Engine{cfg: Config{Isolation: func(_ context.Context, account, url string) (api.Repository, error) {
		if account != "ada" {
			t.Errorf("asked for the account %q", account)
		}
		return api.Repository{Name: "repo" + url, Isolation: defaults[url]}, nil
	}}}
	for _, tt := range []struct {
		name, requested  string
		urls             []string
		isolation, owner string
		refused          bool
	}{
		{"one with a default", "", []string{"/a"}, "container", "repo/a", false},
		{"one without", "", []string{"/none"}, "", "", false},
		{"the second has it", "", []string{"/none", "/b"}, "gvisor", "repo/b", false},
		{"the same default twice", "", []string{"/a", "/also-a"}, "container", "repo/a", false},
		{"different defaults", "", []string{"/a", "/none", "/b"}, "", "", true},
		{"the request decides", "docker", []string{"/a", "/b"}, "docker", "", false},
	} {
		req := api.CreateTask{}
		req.Sandbox.Account, req.Sandbox.Isolation = "ada", tt.requested
		r := api.RepoTask{URL: tt.urls[0]}
		for _, url := range tt.urls[1:] {
			r.Also = append(r.Also, api.TaskRepository{URL: url})
		}
		err := e.savedIsolation(t.Context(), &req, &r)
		if tt.refused {
			if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "repo/a is container") || !strings.Contains(err.Error(), "repo/b is gvisor") || !strings.Contains(api.HintOf(err), "--isolation") {
				t.Errorf("%s: %v (%s)", tt.name, err, api.HintOf(err))
			}
			continue
		}
		if err != nil || req.Sandbox.Isolation != tt.isolation || req.Sandbox.IsolationFrom != tt.owner || r.IsolationFrom != tt.owner {
			t.Errorf("%s: %q of %q and %q, %v", tt.name, req.Sandbox.Isolation, req.Sandbox.IsolationFrom, r.IsolationFrom, err)
		}
	}
}
