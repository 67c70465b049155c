package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/completion"
	"hortus.dev/internal/cli/install"
)

// listing plays a daemon with a sandbox and a task.
func listing(t *testing.T) app.Connect {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode([]api.Sandbox{{ID: "i4f2a000000000000000", State: "running", Isolation: "container", ExpiresAt: time.Now().Add(time.Hour)}})
	})
	mux.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode([]api.Task{{ID: "t9999000000000000000", State: api.TaskDone, Outcome: "verified", Create: api.CreateTask{Request: "a\tb\x1b[31m\nc"}}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return func(ctx context.Context, opt app.ConnectOptions) (*client.Client, error) {
		if !opt.MustRun {
			t.Error("completing would start a daemon")
		}
		if opt.DataDir == "/none" {
			return nil, api.Errorf(api.KindUnavailable, "nobody is there")
		}
		return client.New(client.Config{Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
		}}), nil
	}
}

func TestComplete(t *testing.T) {
	connect := listing(t)
	const box, task = "i4f2a000000000000000", "t9999000000000000000"
	for _, c := range []struct {
		words string // _ stands for an empty word
		want  []string
	}{
		{"ver", []string{"version"}},
		{"sandbox sh", []string{"show", "shell"}},
		{"sandbox show _", []string{box}},
		{"sandbox show i4", []string{box}},
		{"sandbox show i5", nil},
		{"sandbox show " + box + " _", nil},
		{"sandbox kill " + box + " _", []string{box}},
		{"sandbox exec _", []string{box}},
		{"sandbox exec " + box + " -- ls _", []string{":files"}},
		{"sandbox exec -u roo", []string{"root"}},
		{"sandbox exec -u _", []string{"user", "root"}},
		{"sandbox cp i4", []string{box + ":", ":nospace", ":files"}},
		{"--data-dir /none sandbox show _", nil},
		{"--data-dir=/none sandbox show _", nil},
		{"--data-dir _", []string{":dirs"}},
		{"task show _", []string{task}},
		{"task logs --stderr -n 1 _", []string{task}},
		{"task logs -n _", nil},
		{"task --re", []string{"--repo", "--record", "--remote", "--read-only"}},
		{"task 'fix it' --mu", []string{"--mutant"}},
		{"task --repo _", []string{":dirs"}},
		{"task --repo . --context _", []string{":files"}},
		{"task start --isolation c", []string{"container"}},
		{"task d", []string{"diff", "deliver"}},
		{"task diff _", []string{task}},
		{"task apply " + task + " --repo _", []string{":dirs"}},
		{"task apply --b", []string{"--branch"}},
		{"task logs x --gate m", []string{"mutant"}},
		{"run --isol", []string{"--isolation"}},
		{"run --isolation c", []string{"container"}},
		{"run --isolation=c", []string{"--isolation=container"}},
		{"run --isolation=container --me", []string{"--memory"}},
		{"run x --log-level _", []string{"debug", "info", "warn", "error"}},
		{"run --nonsense=c", nil},
		{"run _", nil},
		{"nonsense _", nil},
		{"completion z", []string{"zsh"}},
		{"role execute _", []string{":files"}},
		{"__comp", nil},
	} {
		words := strings.Fields(c.words)
		for i, w := range words {
			if w == "_" {
				words[i] = ""
			}
		}
		code, stdout, stderr := run(t, connect, "", nil, append([]string{completion.Name, "--"}, words...)...)
		var got []string
		for line := range strings.Lines(stdout) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, name)
		}
		if c.words == "nonsense _" {
			got = nil // all commands: it may still become one
		}
		if code != 0 || stderr != "" || !slices.Equal(got, c.want) {
			t.Errorf("%s: code %d, %q, want %q; %s", c.words, code, got, c.want, stderr)
		}
		if strings.Contains(stdout, "\x1b") || strings.Contains(c.words, "task show") && strings.Count(stdout, "\t") != 1 {
			t.Errorf("%s: a request reached the terminal as it is: %q", c.words, stdout)
		}
	}
	if code, stdout, _ := run(t, connect, "", nil, completion.Name); code != 0 || !strings.Contains(stdout, "sandbox\t") {
		t.Errorf("no word at all: %d, %q", code, stdout)
	}
}

func FuzzComplete(f *testing.F) {
	f.Add("sandbox\x00exec\x00-u\x00")
	f.Add("--data-dir=x\x00run\x00--isolation=c")
	f.Add("-\x00--\x00-iu\x00--=\x00")
	f.Fuzz(func(t *testing.T, line string) {
		none := func(context.Context, app.ConnectOptions) (*client.Client, error) {
			return nil, api.Errorf(api.KindUnavailable, "nobody is there")
		}
		words := append([]string{completion.Name, "--"}, strings.Split(line, "\x00")...)
		if code, _, stderr := run(t, none, "", nil, words...); code != 0 || stderr != "" {
			t.Fatalf("%q: code %d, %s", line, code, stderr)
		}
	})
}

func TestCompletionScripts(t *testing.T) {
	home := t.TempDir()
	vars := map[string]string{"HOME": home}
	for shell, path := range map[string]string{
		"bash": ".local/share/bash-completion/completions/hortus", "zsh": ".local/share/zsh/site-functions/_hortus", "fish": ".config/fish/completions/hortus.fish",
	} {
		code, script, _ := run(t, nil, "", nil, "completion", shell)
		if code != 0 || !strings.Contains(script, completion.Name+" -- ") || !strings.Contains(script, install.Mark) {
			t.Errorf("%s: code %d\n%s", shell, code, script)
		}
		path = filepath.Join(home, path)
		for range 2 { // the second time it is ours to replace
			if code, _, stderr := runIn(t, vars, nil, "", nil, "completion", shell, "--install"); code != 0 {
				t.Errorf("install for %s: %s", shell, stderr)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != script {
			t.Errorf("%s: %v", path, err)
		}
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := runIn(t, vars, nil, "", nil, "completion", shell, "--install"); code != 1 || !strings.Contains(stderr, path) {
			t.Errorf("over somebody else's file: code %d, %s", code, stderr)
		}
	}
	if code, _, stderr := run(t, nil, "", nil, "completion", "tcsh"); code != 2 || !strings.Contains(stderr, "fish") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
