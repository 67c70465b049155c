package external

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/task/repo"
)

// TestAddress: the address that an agent is given is that of the bindings of its secret.
func TestAddress(t *testing.T) {
	at := func(m secrets.Model, paths ...string) secrets.Binding {
		return secrets.Binding{Host: "llm.example.org", Model: m, Paths: paths}
	}
	other := at(secrets.OpenAI, "/base/v1/chat/completions", "/base/v1/models")
	other.Port, other.Scheme = 8443, "http"
	for _, tt := range []struct {
		server   secrets.Model
		bindings []secrets.Binding
		want     string
	}{
		{secrets.Anthropic, []secrets.Binding{at(secrets.Anthropic, "/v1/messages", "/v1/models/*")}, "https://llm.example.org"},
		{secrets.Anthropic, []secrets.Binding{at(secrets.Anthropic, "/proxy/v1/messages")}, "https://llm.example.org/proxy"},
		{secrets.Anthropic, []secrets.Binding{at(secrets.Anthropic)}, "https://llm.example.org"},
		{secrets.OpenAI, []secrets.Binding{at(secrets.Anthropic, "/v1/messages"), other}, "http://llm.example.org:8443/base/v1"},
		{secrets.OpenAI, []secrets.Binding{at(secrets.OpenAI, "/v1/**")}, "https://llm.example.org/v1"},
		{secrets.OpenAI, []secrets.Binding{at(secrets.Anthropic, "/v1/messages")}, ""},
		{secrets.OpenAI, nil, ""},
	} {
		got, err := address(secrets.Secret{Name: "s", Bindings: tt.bindings}, tt.server)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && !strings.Contains(api.HintOf(err), "--preset openai") {
			t.Errorf("%s %+v: %q, %v; want %q", tt.server, tt.bindings, got, err, tt.want)
		}
	}
}

// shelf keeps layers in directories.
type shelf struct{ dir string }

func (s shelf) Layer(ctx context.Context, key string, build func(context.Context, string) error) (repo.Layer, func(), error) {
	dir := filepath.Join(s.dir, strings.ReplaceAll(key, " ", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	return repo.Layer(dir), func() {}, build(ctx, dir)
}

// installer is a setup whose requests a test looks at.
type installer struct {
	got repo.SetupRequest
	err error
}

func (i *installer) Prepare(_ context.Context, q repo.SetupRequest) (repo.SetupResult, error) {
	i.got = q
	return repo.SetupResult{Layers: []repo.Layer{"installed"}, Release: func() {}}, i.err
}

// TestPrepare: what an agent needs is installed without the secrets and variables of the task, and its sandbox gets the key
// of its model unless the task names one.
func TestPrepare(t *testing.T) {
	task := func(agent, model string, grants ...api.SecretGrant) api.Task {
		return api.Task{Create: api.CreateTask{Model: model, Repo: &api.RepoTask{Agent: agent}, Sandbox: api.CreateSandbox{Secrets: grants}}}
	}
	mine := api.SecretGrant{Name: "mine", Env: "ANTHROPIC_API_KEY"}
	for _, tt := range []struct {
		name    string
		task    api.Task
		failure error
		secret  string // that is looked up
		granted string
		says    string
	}{
		{"by default", task("claude", ""), nil, "anthropic", "anthropic", ""},
		{"a grant of the task", task("claude", "", api.SecretGrant{Name: "x"}, mine), nil, "mine", "", ""},
		{"another server", task("opencode", "openai:gpt-x", mine), nil, "openai", "openai", ""},
		{"no such agent", task("other", ""), nil, "", "", "unknown agent"},
		{"no such model", task("claude", "openai"), nil, "", "", "cannot use the model"},
		{"no secret", task("claude", "", api.SecretGrant{Name: "absent", Env: "ANTHROPIC_API_KEY"}), nil, "absent", "", "there is no secret absent"},
		{"no installation", task("claude", ""), errors.New("no space"), "anthropic", "", "no space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setup, asked := &installer{err: tt.failure}, ""
			a := New(Config{Setup: setup, Layers: shelf{t.TempDir()}, Secret: func(_ context.Context, account, name string) (secrets.Secret, error) {
				asked = name
				if account != "acme" || name == "absent" {
					return secrets.Secret{}, api.Errorf(api.KindNotFound, "no secret %s of %s", name, account)
				}
				return secrets.Secret{Name: name, Bindings: []secrets.Binding{{Host: "example.org", Model: secrets.Anthropic}, {Host: "example.org", Model: secrets.OpenAI}}}, nil
			}})
			q := repo.SetupRequest{Sandbox: api.CreateSandbox{Account: "acme", Env: map[string]string{"A": "b"}, Secrets: []api.SecretGrant{mine}}}
			got, err := a.Prepare(t.Context(), tt.task, q)
			if asked != tt.secret || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("asked for %q: %v", asked, err)
			}
			if err != nil {
				return
			}
			granted := ""
			for _, g := range got.Secrets {
				granted += g.Name
			}
			if granted != tt.granted || got.Layer != "installed" || got.Label == "" {
				t.Errorf("%+v", got)
			}
			in := setup.got
			if in.Sandbox.Env != nil || in.Sandbox.Secrets != nil || in.Egress != nil || !in.Required || !in.Agent || len(in.Files) != 3 {
				t.Errorf("the installation: %+v", in)
			}
			for _, f := range in.Files {
				b, err := os.ReadFile(filepath.Join(string(in.Layer), f.Path))
				if err != nil || string(b) != string(in.Read(f.Path, 1<<20)) || int64(len(b)) != f.Size || len(in.Read(f.Path, 5)) != 5 {
					t.Errorf("%s: %d bytes, %v", f.Path, len(b), err)
				}
			}
			if text := string(in.Read(".hortus/setup.yaml", 1<<20)); !strings.Contains(text, "npm ci --ignore-scripts") || strings.ContainsAny(text, "{}") && strings.Contains(text, "{root}") {
				t.Errorf("the recipe:\n%s", text)
			}
		})
	}
}

// TestTurnContinues: a later turn continues the session of an earlier one, in which everything was said. An agent that has forgotten it
// begins a new one with the conversation as text, once.
func TestTurnContinues(t *testing.T) {
	for how, past := range map[string]bool{"calls": false, "forgets": true} {
		t.Run(how, func(t *testing.T) {
			first := stage(t, how, api.Budget{}, &facts{}, &bytes.Buffer{})
			if rep := first.Run(t.Context(), "the first message"); rep.Stop != api.StopEnded || first.Session() != "s" {
				t.Fatalf("%+v, session %q", rep, first.Session())
			}
			d := first.desk
			d.Session, d.Past = first.Session(), "Person: the first message"
			next := newWorker(first.runtime, first.preset, first.launch, d, time.Now)
			if rep := next.Run(t.Context(), "the second message"); rep.Stop != api.StopEnded || next.Session() != "s" {
				t.Fatalf("%+v, session %q", rep, next.Session())
			}
			said, err := os.ReadFile(filepath.Join(first.launch.Env["HOME"], "said"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(said), "Person: the first message"); got != past {
				t.Errorf("the conversation as text: %v, want %v:\n%s", got, past, said)
			}
			if !strings.Contains(string(said), "the second message") {
				t.Errorf("%s", said)
			}
		})
	}
	// Within a task a session that is gone is an error, as before.
	w := stage(t, "forgets", api.Budget{}, &facts{}, &bytes.Buffer{})
	w.Run(t.Context(), "one")
	if rep := w.Run(t.Context(), "two"); rep.Stop != api.StopModel || rep.Err == nil {
		t.Errorf("%+v", rep)
	}
}
