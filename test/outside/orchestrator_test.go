package outside

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// control plays the control plane of Claude Code's self-hosted environments, as far as the
// orchestrator and a runner without work ask it.
type control struct {
	t *testing.T
	*httptest.Server

	mu      sync.Mutex
	hints   []object
	calls   []call
	changed chan struct{}
}

// call is a request that came.
type call struct {
	path, authorization string
	body                object
}

func newControl(t *testing.T) *control {
	c := &control{t: t, changed: make(chan struct{})}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	c.calls = append(c.calls, call{r.URL.Path, r.Header.Get("Authorization"), body})
	hints := c.hints
	c.hints = nil
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var out any = object{}
	switch {
	case strings.HasSuffix(r.URL.Path, "/spawn-hints/poll"):
		if hints == nil {
			hints = []object{}
		}
		out = object{"hints": hints, "warm_hints": []object{}, "pending_count": len(hints), "backing_off_count": 0, "circuit_broken_count": 0}
	case strings.HasSuffix(r.URL.Path, "/runners/register"):
		out = object{"runner_id": "runner_1", "runner_token": "a.b.c"}
	case strings.HasSuffix(r.URL.Path, "/poll"):
		select { // a long poll, as it is there
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
		out = object{"assignment_ids": []string{}, "lease_expires_at": time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// await waits for a call whose path has an end.
func (c *control) await(end string, failed func() string) call {
	c.t.Helper()
	late := time.After(patience.Of(time.Minute))
	for {
		c.mu.Lock()
		changed := c.changed
		for _, x := range c.calls {
			if strings.HasSuffix(x.path, end) {
				c.mu.Unlock()
				return x
			}
		}
		var paths []string
		for _, x := range c.calls {
			paths = append(paths, x.path)
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			c.t.Fatalf("no call of %s: %q\n%s", end, paths, failed())
		}
	}
}

// token makes a JWT with claims, which nobody signed.
func token(claims object) string {
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(object{"alg": "ES256", "typ": "JWT"}) + "." + part(claims) + "." + base64.RawURLEncoding.EncodeToString([]byte("signature"))
}

const pool = "ccpool_01ABCDEFGHJKMNPQRSTVWXYZ"

// hint is an order of the control plane.
func (c *control) hint(n int) (jti string) {
	jti = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	session := fmt.Sprintf("11111111-1111-4111-8111-%012d", n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hints = append(c.hints, object{
		"jti": jti, "session_uuid": session, "attempt": 1, "sources": []object{},
		"work_order_jwt": token(object{"jti": jti, "aud": pool, "ccr:pool_id": pool, "exp": time.Now().Add(time.Hour).Unix()}),
	})
	return jti
}

// claude starts the unmodified Claude Code.
func claude(t *testing.T, args ...string) (*exec.Cmd, *safeBuffer) {
	t.Helper()
	program := program(t, "@anthropic-ai/claude-code-linux-*/claude")
	home := t.TempDir()
	out := &safeBuffer{}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(3*time.Minute))
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, append([]string{"self-hosted-runner"}, args...)...)
	cmd.Env = append(append([]string(nil), environ...), "HOME="+home, "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "NO_PROXY=127.0.0.1")
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out
}

// TestOrchestrator: the unmodified orchestrator runs the hook for its orders, and tells the
// control plane which of them failed, and whether for good.
func TestOrchestrator(t *testing.T) {
	tier.Soak(t)
	c := newControl(t)
	snapshot := stubbed(t, "container")
	r := relayed(t, "--template", snapshot, "--isolation", "container", "--sessions", "1")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sk-ant-pool-"+token(object{"ccr:pool_id": pool})), 0o600); err != nil {
		t.Fatal(err)
	}
	first := c.hint(1)
	_, said := claude(t, "orchestrator", "--api-url", c.URL, "--environment-secret-file", secret, "--hooks-dir", r.dir, "--health-port", "0", "--log-level", "debug")
	sb := r.await(1)[first]
	if sb.ID == "" {
		t.Fatalf("the sandbox is of another order: %v\n%s", r.sandboxes(), said)
	}
	if got := started(t, sb); !strings.Contains(got, token(object{"jti": first, "aud": pool, "ccr:pool_id": pool})[:40]) {
		t.Errorf("the runner was started with %s", got)
	}
	// There is no room for a second one: the orchestrator says so, and that it may pass.
	c.hint(2)
	nack := c.await("/spawn-hints/nack", said.String)
	if nack.body["retryable"] != true || !strings.Contains(fmt.Sprint(nack.body["error"]), "maximum") {
		t.Errorf("the orchestrator said %v", nack.body)
	}
	if got := len(r.sandboxes()); got != 1 {
		t.Errorf("there are %d sandboxes", got)
	}
}

// TestOrchestratorStops: what no try can change is said to be so.
func TestOrchestratorStops(t *testing.T) {
	tier.Soak(t)
	c := newControl(t)
	r := relayed(t, "--isolation", "container", "--claude", "no-such-program")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sk-ant-pool-"+token(object{"ccr:pool_id": pool})), 0o600); err != nil {
		t.Fatal(err)
	}
	c.hint(1)
	_, said := claude(t, "orchestrator", "--api-url", c.URL, "--environment-secret-file", secret, "--hooks-dir", r.dir, "--health-port", "0")
	nack := c.await("/spawn-hints/nack", said.String)
	if nack.body["retryable"] == true || !strings.Contains(fmt.Sprint(nack.body["error"]), "no-such-program") {
		t.Errorf("the orchestrator said %v", nack.body)
	}
	r.await(0)
}

// TestRunnerFlags: the unmodified runner takes the flags that a relay gives it, registers with
// the work order and gives it back at SIGTERM. It runs on this machine: a sandbox cannot reach
// the control plane of this test.
func TestRunnerFlags(t *testing.T) {
	tier.Soak(t)
	c := newControl(t)
	dir := t.TempDir()
	order := token(object{"jti": "j", "aud": pool, "ccr:pool_id": pool, "exp": time.Now().Add(time.Hour).Unix()})
	file := filepath.Join(dir, "order")
	if err := os.WriteFile(file, []byte(order), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, said := claude(t, "--environment-secret-file", file, "--capacity", "1", "--health-port", "0", "--client-label", "label-of-the-sandbox",
		"--retire-at", fmt.Sprint(time.Now().Add(time.Hour).Unix()), "--api-url", c.URL, "--base-dir", dir)
	got := c.await("/runners/register", said.String)
	if !strings.Contains(got.authorization, order) || got.body["client_label"] != "label-of-the-sandbox" {
		t.Errorf("the runner registered with %q, %v", got.authorization, got.body)
	}
	c.await("/poll", said.String)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	c.await("/deregister", said.String)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
