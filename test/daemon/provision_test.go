package daemon

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

func testProvision(t *testing.T, c *client.Client, dir string) {
	world.Isolates(t, c, "")
	ctx := t.Context()
	const req = `{"taskId":"agent-1","imageId":"host","ttlSeconds":600,"envVars":{"SESSION_ID":"s1"}}`
	first := world.Into[api.Provisioned](t, world.Over(t, ctx, dir, "POST", "/v1/provision", req), http.StatusCreated)
	if first.Status != api.SandboxRunning || first.TaskID != "agent-1" || first.TTLSeconds != 600 || first.ExpiresAt.Sub(first.CreatedAt).Seconds() != 600 {
		t.Errorf("%+v", first)
	}
	again := world.Into[api.Provisioned](t, world.Over(t, ctx, dir, "POST", "/v1/provision", req), http.StatusOK)
	if again.SandboxID != first.SandboxID {
		t.Errorf("again: %+v", again)
	}
	for body, want := range map[string]string{
		`{"taskId":"agent-1"}`:              "ttlSeconds", // another request of the task
		`{"taskId":"x","imageId":"nosuch"}`: "imageId",
		`{"taskId":"x","gpu":true}`:         "gpu",
		`{"taskId":"x","envVars":{"A":"` + strings.Repeat("x", 70_000) + `"}}`: "environment",
	} {
		resp := world.Over(t, ctx, dir, "POST", "/v1/provision", body)
		b, _ := io.ReadAll(resp.Body)
		status := http.StatusBadRequest
		if strings.Contains(body, "agent-1") {
			status = http.StatusConflict
		}
		if resp.StatusCode != status || !strings.Contains(string(b), want) {
			t.Errorf("%.60s: %s %s; want %d that says %q", body, resp.Status, b, status, want)
		}
	}
	waited := world.Into[api.Provisioned](t, world.Over(t, ctx, dir, "POST", "/v1/provision/agent-1/wait", `{"timeout":30}`), http.StatusOK)
	got := world.Into[api.Provisioned](t, world.Over(t, ctx, dir, "GET", "/v1/provision/"+string(first.SandboxID), ""), http.StatusOK)
	if waited.SandboxID != first.SandboxID || got.TaskID != "agent-1" || !strings.HasPrefix(got.SandboxURL, "http://hortus/v1/") {
		t.Errorf("%+v\n%+v", waited, got)
	}
	execute := func(body string) api.Executed {
		t.Helper()
		path := strings.TrimPrefix(got.SandboxURL, "http://hortus") + "/execute"
		return world.Into[api.Executed](t, world.Over(t, ctx, dir, "POST", path, body), http.StatusOK)
	}
	if x := execute(`{"code":"import os; print(os.environ['SESSION_ID'])"}`); x.Stdout != "s1\n" || x.ExitCode != 0 || x.Exec == "" {
		t.Errorf("%+v", x)
	}
	sandbox := world.Must(c.Sandboxes.Get(ctx, string(first.SandboxID)))(t)
	defer sandbox.Close()
	forked, err := sandbox.Fork(ctx, api.ForkSandbox{FilesOnly: true})
	if err == nil && len(forked.Children) == 1 && forked.Children[0].Sandbox != nil && forked.Children[0].Sandbox.Provision != nil {
		t.Error("a child is the task's too")
	}
	destroyed, err := c.Provisions.Destroy(ctx, "agent-1")
	if err != nil || destroyed.Proof.Left != 0 || destroyed.Sandbox.Status != api.SandboxEnded || destroyed.Sandbox.Reason == "" {
		t.Errorf("%+v, %v", destroyed, err)
	}
	if again, err := c.Provisions.Destroy(ctx, string(first.SandboxID)); err != nil || again.Sandbox.SandboxID != first.SandboxID {
		t.Errorf("destroyed again: %+v, %v", again, err)
	}
}

func testExecute(t *testing.T, c *client.Client, _ string) {
	s := world.Sandbox(t, c, api.CreateSandbox{Isolation: "process"})
	has := map[string]bool{}
	for _, l := range []struct{ name, code string }{{"python", "pass"}, {"javascript", ";"}, {"bash", ":"}} {
		_, err := s.Execute(t.Context(), api.ExecuteRequest{Language: l.name, Code: l.code})
		if has[l.name] = err == nil; err != nil && (api.KindOf(err) != api.KindUnsupported || api.HintOf(err) == "") {
			t.Errorf("%s: %v", l.name, err)
		}
	}
	if !has["python"] || !has["bash"] {
		t.Skip("this host has no python3 or no bash")
	}
	for i, step := range []struct {
		language, code string
		stdout, stderr string // the second is contained
		exit           int
	}{
		{"", "print('hello')", "hello\n", "", 0},
		{"python", "import sys; sys.stderr.write('oops'); sys.exit(3)", "", "oops", 3},
		{"python", "def f():\n    return 1/0\nf()", "", "File \"<code>\", line 2, in f\n    return 1/0", 1},
		{"python", "print(", "", "SyntaxError", 1},
		{"python", "import sys; print(repr(sys.stdin.read()), __name__, sys.argv)", "'' __main__ ['']\n", "", 0},
		{"bash", "exit 7", "", "", 7},
		{"bash", "read x; echo \"$? [$x]\"", "1 []\n", "", 0},
		{"bash", "echo \"unclosed", "", "unexpected EOF", 2},
		{"bash", "kill -9 $$", "", "", 137},
		// Files stay.
		{"python", "open('f.txt', 'w').write('kept')", "", "", 0},
		{"bash", "cat f.txt", "kept", "", 0},
		// Packages stay.
		{"bash", "d=$(python3 -m site --user-site); mkdir -p \"$d\"; echo 'x = 42' >\"$d/garden.py\"", "", "", 0},
		{"python", "import garden; print(garden.x)", "42\n", "", 0},
		// The environment stays, what is removed too, across languages.
		{"python", "import os; os.environ['A'] = 'a b\\n\"c\"'; os.environ['B'] = '2'", "", "", 0},
		{"bash", "printf %s \"$A\"; export C=3; unset B", "a b\n\"c\"", "", 0},
		{"python", "import os; print(os.environ.get('B'), os.environ['C'], repr(os.environ['A']))", "None 3 'a b\\n\"c\"'\n", "", 0},
		{"bash", "set -eu; export PATH=/nowhere D=4; exit 5", "", "", 5},
		{"bash", "echo $PATH $D; export PATH=/usr/local/bin:/usr/bin:/bin; unset D", "/nowhere 4\n", "", 0},
		{"python", "import os; os.environ['E'] = '5'; raise SystemExit(2)", "", "", 2},
		{"python", "import os; print(os.environ['E'], os.environ.get('D')); os._exit(0)", "", "", 0},
		{"bash", "echo \"$E\"", "5\n", "", 0},
	} {
		x, err := s.Execute(t.Context(), api.ExecuteRequest{Language: step.language, Code: step.code})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if x.Stdout != step.stdout || !strings.Contains(x.Stderr, step.stderr) || x.ExitCode != step.exit || strings.Contains(x.Stderr, "hortus:") {
			t.Errorf("step %d, %s %q: %+v", i, step.language, step.code, x)
		}
	}
	if has["javascript"] {
		for _, step := range []struct{ language, code, stdout string }{
			{"javascript", "process.env.J = 'js'; delete process.env.C; console.log(require('path').sep, require.main === module)", "/ true\n"},
			{"python", "import os; print(os.environ['J'], 'C' in os.environ)", "js False\n"},
			{"javascript", "console.log(process.env.J, process.env.A.length); process.exit(0)", "js 7\n"},
		} {
			if x, err := s.Execute(t.Context(), api.ExecuteRequest{Language: step.language, Code: step.code}); err != nil || x.Stdout != step.stdout || x.ExitCode != 0 {
				t.Errorf("%s %q: %+v, %v", step.language, step.code, x, err)
			}
		}
	}
	x, err := s.Execute(t.Context(), api.ExecuteRequest{Language: "bash", Code: "echo before; sleep 1000", TimeoutSeconds: 1})
	if err != nil || x.Cause != api.CauseTimeout || x.ExitCode != 137 || x.Stdout != "before\n" {
		t.Errorf("a timeout: %+v, %v", x, err)
	}
	x, err = s.Execute(t.Context(), api.ExecuteRequest{Language: "bash", Code: "head -c 3000000 /dev/zero | tr '\\0' é; printf '\\377'>&2"})
	if err != nil || !x.Truncated || x.StdoutBytes < 3_000_000 || len(x.Stdout) > api.MaxOutput || x.Stderr != "\uFFFD" {
		t.Errorf("much output: %d of %d bytes, truncated %v, %q, %v", len(x.Stdout), x.StdoutBytes, x.Truncated, x.Stderr, err)
	}
	long := "x = 1\n" + strings.Repeat("# "+strings.Repeat("y", 97)+"\n", 10_000) + "print(x)"
	if x, err := s.Execute(t.Context(), api.ExecuteRequest{Code: long}); err != nil || x.Stdout != "1\n" {
		t.Errorf("a million bytes of code: %+v, %v", x, err)
	}
	for want, req := range map[string]api.ExecuteRequest{
		"language":       {Language: "ruby", Code: "1"},
		"empty":          {},
		"timeoutSeconds": {Code: "1", TimeoutSeconds: 3601},
		"code has":       {Code: strings.Repeat("#", api.MaxCode+1)},
	} {
		if _, err := s.Execute(t.Context(), req); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestProvisionedOutlivesItsDaemon kills the daemon: the task's sandbox, with what was
// left in it, is the next daemon's.
func TestProvisionedOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	ctx := t.Context()
	req := api.ProvisionRequest{TaskID: "agent-1", TTLSeconds: 600}
	first := world.Must(c.Provisions.Create(ctx, req))(t)
	run := func(c *client.Client, code string) string {
		t.Helper()
		s := world.Must(c.Sandboxes.Get(ctx, string(first.SandboxID)))(t)
		defer s.Close()
		x, err := s.Execute(ctx, api.ExecuteRequest{Language: "bash", Code: code})
		if err != nil || x.ExitCode != 0 {
			t.Fatalf("%+v, %v", x, err)
		}
		return x.Stdout
	}
	run(c, "echo 41 >n.txt; export STEP=1")
	info := world.Must(c.Info(ctx))(t)
	world.OK(t, syscall.Kill(info.PID, syscall.SIGKILL))
	next := world.Connect(t, dir)
	again, err := next.Provisions.Create(ctx, req)
	if err != nil || again.SandboxID != first.SandboxID || again.ExpiresAt.Sub(first.ExpiresAt).Abs() > time.Second {
		t.Fatalf("%+v, not %+v; %v", again, first, err)
	}
	if got := run(next, "echo $(($(cat n.txt) + STEP))"); got != "42\n" {
		t.Errorf("%q", got)
	}
	if d, err := next.Provisions.Destroy(ctx, "agent-1"); err != nil || d.Proof.Left != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
