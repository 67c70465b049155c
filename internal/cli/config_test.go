package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigReachesCommands: what the file and the environment say is what is
// asked for, and a flag wins.
func TestConfigReachesCommands(t *testing.T) {
	path := configFile(t, `
log-level = "warn"
[daemon]
idle = "1m"
[sandbox]
memory = "256M"
pids = 64
cpus = 2
[task]
attempts = 5
timeout = "7s"
`)
	d := verified()
	var asked app.ConnectOptions
	serve := d.start(t)
	connect := func(ctx context.Context, opt app.ConnectOptions) (*client.Client, error) {
		asked = opt
		return serve(ctx, opt)
	}
	env := map[string]string{"HORTUS_PIDS": "65", "HORTUS_CPUS": "3"}
	if code, _, stderr := runIn(t, env, connect, "", nil, "--config", path, "run", "--cpus", "4", "x"); code != 0 {
		t.Fatalf("code %d\n%s", code, stderr)
	}
	l, c := d.created.Sandbox.Limits, d.created
	if l.MemoryBytes != 256<<20 || l.Processes != 65 || l.CPUs != 4 || c.Attempts != 5 || c.RunTimeoutMS != 7000 {
		t.Errorf("asked for %+v", c)
	}
	if asked.ConfigFile != path || asked.Settings.LogLevel != "warn" || asked.Settings.IdleMS == nil || *asked.Settings.IdleMS != 60000 || asked.DataDir != "/nowhere/.local/share/hortus" {
		t.Errorf("a daemon with %+v", asked)
	}
	// The default of a command in a sandbox is another matter than a task's.
	if code, _, stderr := runIn(t, env, connect, "", nil, "--config", path, "--log-level", "debug", "task", "show", "4f2a"); code != 0 || !strings.Contains(stderr, "level=DEBUG") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if asked.Settings.LogLevel != "debug" {
		t.Errorf("a daemon with %+v", asked.Settings)
	}
}

func TestConfigShow(t *testing.T) {
	path := configFile(t, "quiet = false\n[sandbox]\nmemory = '256M'\n")
	env := map[string]string{"HORTUS_CONFIG": path, "HORTUS_TTL": "90s"}
	none := func(context.Context, app.ConnectOptions) (*client.Client, error) {
		t.Error("a daemon was asked for")
		return nil, api.Errorf(api.KindUnavailable, "none")
	}
	code, stdout, stderr := runIn(t, env, none, "", nil, "config", "show", "--json", "--data-dir", "/d")
	var doc struct {
		Path     string
		Found    bool
		Settings []struct {
			Key, Value string
			Origin     struct {
				Kind, Name, Path string
				Line             int
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 || doc.Path != path || !doc.Found {
		t.Fatalf("code %d, %v, %+v %s", code, err, doc, stderr)
	}
	got := map[string]string{}
	for _, s := range doc.Settings {
		got[s.Key] = s.Value + " " + s.Origin.Kind + " " + s.Origin.Name
		if s.Key == "sandbox.memory" && (s.Origin.Path != path || s.Origin.Line != 3) {
			t.Errorf("%+v", s)
		}
	}
	for key, want := range map[string]string{
		"data-dir": "/d flag data-dir", "sandbox.ttl": "90s env HORTUS_TTL", "sandbox.memory": "256M file ", "sandbox.disk": "512MiB default ", "quiet": "false file ",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	_, stdout, _ = runIn(t, env, none, "", nil, "config", "show")
	for _, want := range []string{"# file: " + path, "file " + path + ":3", "env HORTUS_TTL", "HORTUS_MEMORY"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if code, stdout, _ := runIn(t, nil, none, "", nil, "config", "path"); code != 0 || stdout != "/nowhere/.config/hortus/config.toml\n" {
		t.Errorf("%d, %q", code, stdout)
	}
}

func TestBadConfig(t *testing.T) {
	path := configFile(t, "[sandbox]\nmemroy = '256M'\n")
	connect := (&daemon{}).start(t)
	for _, args := range [][]string{{"task", "ls"}, {"config", "show"}, {"sandbox", "run", "--", "true"}, {"run"}} {
		code, _, stderr := run(t, connect, "", nil, append([]string{"--config", path}, args...)...)
		if code != 2 || !strings.Contains(stderr, path+":2: ") || !strings.Contains(stderr, "did you mean memory in [sandbox]") {
			t.Errorf("%q: code %d, %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{{"version"}, {"config", "path"}, {"--help"}} {
		if code, _, stderr := run(t, connect, "", nil, append([]string{"--config", path}, args...)...); code != 0 {
			t.Errorf("%q: code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := run(t, connect, "", nil, "--log-level", "loud", "version"); code != 2 || !strings.Contains(stderr, "debug, info, warn, error") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := runIn(t, map[string]string{"HORTUS_MEMORY": "12Q"}, connect, "", nil, "run", "x"); code != 2 || !strings.Contains(stderr, "HORTUS_MEMORY") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
