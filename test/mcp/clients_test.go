package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/modelserver"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// Variable names a directory in which the packages of package-lock.json are installed.
const Variable = "HORTUS_MCP"

// installed finds the packages, or skips the test with the reason.
func installed(t *testing.T) (modules string) {
	t.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("no cache to look for the clients in: %v", err)
		}
		dir = filepath.Join(cache, "hortus-mcp")
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if modules = filepath.Join(dir, "node_modules"); err == nil {
		_, err = os.Stat(modules)
	}
	if err == nil && !bytes.Equal(lock, there) {
		err = fmt.Errorf("%s is of other versions", dir)
	}
	if err != nil {
		t.Skipf("the clients are not installed: %v; mkdir -p %s && cp test/mcp/package*.json %s && npm ci --ignore-scripts --prefix %s", err, dir, dir, dir)
	}
	return modules
}

// npmCPU is how npm calls this machine's processor.
var npmCPU = map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]

// program is a command with a home of its own.
func program(ctx context.Context, t *testing.T, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, t.TempDir()
	return cmd
}

// script runs a script of a package of the protocol.
func script(ctx context.Context, t *testing.T, modules, path string, args ...string) *exec.Cmd {
	node := filepath.Join(modules, "node-linux-"+npmCPU, "bin", "node")
	return program(ctx, t, node, append([]string{filepath.Join(modules, "@modelcontextprotocol", path)}, args...)...)
}

// TestClaudeCode has the unmodified agent, with a scripted model, list the tools and call two of them.
func TestClaudeCode(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	modules := installed(t)
	cfg := world.Config{}
	cfg.Usual.Isolation = "container"
	w := world.Open(t, cfg)
	w.Isolates(t, "container")
	model := world.Must(modelserver.New([]byte(`key: test-key
side: ignore
-- create --
call: mcp__hortus__sandbox_create

{"ttl_seconds": 300}
-- list --
last: sandbox_id
call: mcp__hortus__sandbox_list

{}
-- end --
last: sandboxes
answer: text

The sandbox is there.
`)))(t)
	api := httptest.NewServer(model)
	t.Cleanup(api.Close)
	servers := world.Must(json.Marshal(map[string]any{"mcpServers": map[string]any{"hortus": map[string]any{
		"type": "http", "url": w.URL + "/mcp", "headers": map[string]string{"Authorization": "Bearer " + w.Key("alice", "").Secret},
	}}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
	defer cancel()
	cmd := program(ctx, t, filepath.Join(modules, "@anthropic-ai", "claude-code-linux-"+npmCPU, "claude"), "-p", "create a sandbox",
		"--mcp-config", string(servers), "--strict-mcp-config", "--allowedTools", "mcp__hortus", "--output-format", "stream-json", "--verbose")
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+api.URL, "ANTHROPIC_API_KEY=test-key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	out, err := cmd.CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, `"result":"The sandbox is there."`) || !strings.Contains(said, `"name":"hortus","status":"connected"`) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, problem := range model.Problems() {
		t.Error(problem)
	}
	if left := world.Must(w.Client.Sandboxes.List(t.Context(), false))(t); len(left) != 1 || left[0].Account != "alice" {
		t.Errorf("the sandboxes are %+v", left)
	}
}

// TestInspector calls every tool with the command line of the official inspector, in both eras. In the newer one it has the
// extension for tasks.
func TestInspector(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	modules := installed(t)
	cfg := world.Config{}
	cfg.Usual.Isolation = "container"
	w := world.Open(t, cfg)
	w.Isolates(t, "container")
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			key := w.Key("alice", "")
			at := endpoint(t, w, key, 2*time.Second)
			inspect := func(args ...string) map[string]any {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
				defer cancel()
				cmd := script(ctx, t, modules, "inspector/clients/launcher/build/index.js", append([]string{"--cli", "--format", "json", "--protocol-era", era, "--server-url", at}, args...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if cmd.ProcessState.ExitCode() == 5 { // the tool has failed
					return map[string]any{"isError": true}
				}
				var answer struct{ Result map[string]any }
				if err == nil {
					err = json.Unmarshal(out, &answer)
				}
				if err != nil {
					t.Fatalf("%q: %v\n%s%s", args, err, out, &stderr)
				}
				return answer.Result
			}
			called := map[string]bool{}
			call := func(tool, args string) map[string]any {
				t.Helper()
				res := inspect("--method", "tools/call", "--tool-name", tool, "--tool-args-json", args)
				called[tool] = true
				out, _ := res["structuredContent"].(map[string]any)
				if res["isError"] == true || out == nil {
					t.Fatalf("%s %s: %v", tool, args, res)
				}
				return out
			}
			listed := inspect("--method", "tools/list", "--strict")["tools"].([]any)

			box := call("sandbox_create", `{}`)["sandbox_id"].(string)
			in := func(more string) string { return fmt.Sprintf(`{"sandbox_id":%q%s}`, box, more) }
			call("file_write", in(`,"path":"f","content":"print(6 * 7)\n"`))
			if f := call("file_read", in(`,"path":"f"`)); f["content"] != "print(6 * 7)\n" {
				t.Errorf("file_read: %v", f)
			}
			if all := fmt.Sprint(call("file_list", in(""))["entries"]); !strings.Contains(all, "/workspace/f") {
				t.Errorf("file_list: %s", all)
			}
			if x := call("run_code", in(`,"language":"python","code":"print(1)"`)); x["output"] != "1\n" {
				t.Errorf("run_code: %v", x)
			}
			x := call("exec", in(`,"command":"sleep 5; python3 f"`))
			if (x["state"] == "exited") != (era == "modern") {
				t.Errorf("a command that takes longer than a call: %v", x)
			}
			for poll := in(fmt.Sprintf(`,"exec_id":%q`, x["exec_id"])); x["state"] == "running" || !called["exec_poll"]; {
				x = call("exec_poll", poll)
			}
			if x["output"] != "42\n" || x["exit_code"] != 0.0 {
				t.Errorf("its end: %v", x)
			}
			if c := call("sandbox_fork", in(""))["children"].([]any); len(c) != 1 {
				t.Errorf("sandbox_fork: %v", c)
			}
			call("preview_url", in(`,"port":3000`))
			if all := fmt.Sprint(call("sandbox_list", `{}`)); !strings.Contains(all, box) {
				t.Errorf("sandbox_list: %s", all)
			}
			out := call("run", `{"request":"print the first 5 prime numbers"}`)
			for out["state"] != "done" || !called["task_show"] {
				out = call("task_show", fmt.Sprintf(`{"task_id":%q}`, out["task_id"]))
			}
			if out["outcome"] != "verified" || out["stdout"] != "2, 3, 5, 7, 11\n" {
				t.Errorf("run: %v", out)
			}
			// A user has no repository here: that the call fails, and how, comes through.
			res := inspect("--method", "tools/call", "--tool-name", "task_start", "--tool-args-json", `{"repository":"/nothing","request":"x"}`)
			if called["task_start"] = true; res["isError"] != true {
				t.Errorf("task_start: %v", res)
			}
			if k := call("sandbox_kill", in("")); k["state"] != "ended" {
				t.Errorf("sandbox_kill: %v", k)
			}
			for _, tool := range listed {
				if name := tool.(map[string]any)["name"].(string); !called[name] {
					t.Errorf("this test does not call %s", name)
				}
			}
		})
	}
}

// verdict is a line of the conformance suite, without its colors.
var (
	verdict = regexp.MustCompile(`\[([a-z0-9-]+) *\] (SUCCESS|FAILURE|WARNING)`)
	colors  = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// TestConformance runs what of the official suite does not need a server with tools of its own; its tools for tasks are commands here.
func TestConformance(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	modules := installed(t)
	cfg := world.Config{}
	cfg.Usual.Isolation = "container"
	w := world.Open(t, cfg)
	w.Isolates(t, "container")
	key := w.Key("alice", "")
	daemon := world.Must(url.Parse(w.URL + "/mcp"))(t)
	box := remote(t, w, key, options{version: stateless}).create(map[string]any{"ttl_seconds": 600})
	short := world.Must(url.Parse(endpoint(t, w, key, 300*time.Millisecond)))(t)
	for _, c := range []struct {
		at        *url.URL
		scenarios []string
		// untried are checks that fail because the server lacks their tool, or has no prompts and resources, which it says.
		untried []string
	}{
		{daemon, []string{
			"server-initialize", "server-stateless", "ping", "tools-list", "caching", "http-header-validation", "dns-rebinding-protection",
			"input-required-result-unsupported-methods",
		}, []string{
			"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
			"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
			"sep-2549-prompts-list-caching-hints", "sep-2549-resources-list-caching-hints", "sep-2549-resources-templates-list-caching-hints",
		}},
		{short, []string{
			"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-request-headers",
			"tasks-dispatch-and-envelope",
		}, []string{
			"sep-2663-tool-error-uses-completed-status", "sep-2663-tasks-get-status-failed", "tasks-server-directed-creation-no-hint",
			"tasks-headers-tolerate-mcp-method-on-tools-call", "tasks-result-type-complete-on-non-task-responses",
		}},
	} {
		through := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = c.at
			r.Out.Header.Set("Authorization", "Bearer "+key.Secret)
			translate(t, r.Out, box)
		}})
		t.Cleanup(through.Close)
		for _, scenario := range c.scenarios {
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
			out, err := script(ctx, t, modules, "conformance/dist/index.js", "server", "--url", through.URL+"/mcp", "--scenario", scenario).CombinedOutput()
			cancel()
			out = colors.ReplaceAll(out, nil)
			found := verdict.FindAllStringSubmatch(string(out), -1)
			for _, v := range found {
				if v[2] != "SUCCESS" && !slices.Contains(c.untried, v[1]) {
					t.Errorf("%s: %s %s\n%s", scenario, v[1], v[2], out)
				}
			}
			if len(found) == 0 {
				t.Errorf("%s: %v\n%s", scenario, err, out)
			}
			t.Logf("%s: %d checks", scenario, len(found))
		}
	}
}

// call is what the suite calls.
var call = regexp.MustCompile(`"name":"(greet|slow_compute)","arguments":(\{[^{}]*\})`)

// translate makes a call of a tool of the suite one of exec.
func translate(t *testing.T, r *http.Request, box string) {
	if r.Body == nil {
		return
	}
	body := world.Must(io.ReadAll(r.Body))(t)
	body = call.ReplaceAllFunc(body, func(text []byte) []byte {
		found := call.FindSubmatch(text)
		var args struct {
			Name    string
			Seconds float64
		}
		if err := json.Unmarshal(found[2], &args); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if r.Header.Get("Mcp-Name") == string(found[1]) {
			r.Header.Set("Mcp-Name", "exec")
		}
		return fmt.Appendf(nil, `"name":"exec","arguments":{"sandbox_id":%q,"command":"sleep %v; echo Hello, %s!"}`, box, args.Seconds, args.Name)
	})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}
