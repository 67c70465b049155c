package runtime_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/runtime"
)

// agents are all of the catalogue.
func agents(t *testing.T) (all []runtime.Runtime) {
	t.Helper()
	for _, name := range runtime.Names() {
		if name == runtime.Own {
			continue
		}
		r, err := runtime.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("there are no agents")
	}
	return all
}

// TestPackages: the version of each agent is in its lock file, every package has a hash, and none names a registry.
func TestPackages(t *testing.T) {
	for _, r := range agents(t) {
		files, err := r.Packages()
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct {
				Version, Integrity, Resolved string
				OptionalDependencies         map[string]string
			}
		}
		if err := json.Unmarshal(files["package-lock.json"], &lock); err != nil {
			t.Fatal(err)
		}
		if got := lock.Packages["node_modules/"+r.Package].Version; got != r.Version {
			t.Errorf("%s: the lock file has %s %q, want %s", r.Name, r.Package, got, r.Version)
		}
		for name, p := range lock.Packages {
			if name != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
				t.Errorf("%s: %s has the hash %q and the address %q", r.Name, name, p.Integrity, p.Resolved)
			}
			// npm ci refuses a lock file that lacks a package, also one of another system.
			for dep := range p.OptionalDependencies {
				if _, ok := lock.Packages["node_modules/"+dep]; !ok {
					t.Errorf("%s: the lock file has no %s, which %s names", r.Name, dep, name)
				}
			}
		}
		var manifest struct {
			Dependencies, OptionalDependencies map[string]string
		}
		if err := json.Unmarshal(files["package.json"], &manifest); err != nil {
			t.Fatal(err)
		}
		for name, v := range manifest.Dependencies {
			if strings.Trim(v, "0123456789.") != "" {
				t.Errorf("%s: %s has the version %q, which is not exact", r.Name, name, v)
			}
		}
	}
}

// TestChoose: a model is one that the agent can use, and a name that means nothing in a configuration.
func TestChoose(t *testing.T) {
	opencode, err := runtime.Find("opencode")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ model, server, want string }{
		{"", "anthropic", opencode.Presets[0].Model},
		{"openai", "openai", opencode.Presets[1].Model},
		{"openai:gpt-x/y.1", "openai", "gpt-x/y.1"},
		{"anthropic:m", "anthropic", "m"},
		{"gemini:m", "", ""},
		{"offline", "", ""},
		{"openai:", "", ""},
		{`openai:m","permission":"`, "", ""},
		{"openai:" + strings.Repeat("m", 200), "", ""},
	} {
		p, err := opencode.Choose(tt.model)
		if tt.server == "" {
			if api.KindOf(err) != api.KindInvalid {
				t.Errorf("%q: %+v, %v", tt.model, p, err)
			}
			continue
		}
		if err != nil || string(p.Server) != tt.server || p.Model != tt.want {
			t.Errorf("%q: %+v, %v", tt.model, p, err)
		}
	}
	if _, err := runtime.Find("other"); api.KindOf(err) != api.KindInvalid || !strings.Contains(api.HintOf(err), "opencode") {
		t.Errorf("%v", err)
	}
}

// TestLaunch runs what starts an agent, with a program in its place: the variables and the key are where the agent reads
// them.
func TestLaunch(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	for _, r := range agents(t) {
		for _, p := range r.Presets {
			home := filepath.Join(t.TempDir(), "a home")
			l := r.Launch(p, runtime.Location{Root: "/root of it", Home: home, URL: "https://example.org/v1/"})
			at := slices.IndexFunc(l.Args, func(a string) bool { return strings.HasPrefix(a, "/root of it/") })
			if at < 0 || l.Args[0] != "sh" {
				t.Fatalf("%s: %q", r.Name, l.Args)
			}
			for _, text := range append(slices.Clone(l.Args[at:]), l.Env["HOME"]) {
				if strings.ContainsAny(text, "{}") {
					t.Errorf("%s: %q is not complete", r.Name, text)
				}
			}
			cmd := exec.Command(sh, append(slices.Clone(l.Args[1:at]), "/usr/bin/env")...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", p.Key + "=the $key; 'of' it"}
			for k, v := range l.Env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", r.Name, err, out)
			}
			text := string(out)
			if !strings.Contains(text, "https://example.org/v1") {
				t.Errorf("%s has no address:\n%s", r.Name, text)
			}
			if strings.Contains(text, "{key}") || strings.Contains(text, "{model}") || strings.Contains(text, "{url}") || !strings.Contains(text, "HOME="+home+"\n") {
				t.Errorf("%s: the variables are not complete:\n%s", r.Name, text)
			}
			if r.Name == "copilot" && !strings.Contains(text, "COPILOT_PROVIDER_API_KEY=the $key; 'of' it\n") {
				t.Errorf("the key is not where copilot reads it:\n%s", text)
			}
			for name, text := range l.Files {
				if !strings.HasPrefix(name, home+"/") || strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
					t.Errorf("%s: the file %s: %s", r.Name, name, text)
				}
			}
			for name, v := range l.Env {
				if strings.HasPrefix(v, "{") && !json.Valid([]byte(v)) {
					t.Errorf("%s: %s is no JSON: %s", r.Name, name, v)
				}
			}
		}
	}
}
