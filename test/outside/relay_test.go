package outside

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// relay is a "hortus relay claude" that runs.
type relay struct {
	t      *testing.T
	dir    string // of the hook
	cmd    *exec.Cmd
	stderr safeBuffer
	once   sync.Once
	err    error
	label  string
}

// safeBuffer is a buffer that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// stub plays the runner: it says with what it was started, and then does what the file
// "what" in its workspace says. It ends at SIGTERM with 0.
const stub = `#!/bin/sh
trap 'echo terminated > /workspace/end; exit 0' TERM
{ echo "$@"; cat "$3"; echo; echo "proxy=$SELF_HOSTED_RUNNER_AGENT_PROXY_URL"; } > /workspace/started.new
mv /workspace/started.new /workspace/started
while :; do
	[ -e /workspace/what ] && { echo "doing what it was told" >&2; . /workspace/what; }
	sleep 0.1
done
`

// stubbed makes a snapshot in which the runner is the stub.
func stubbed(t *testing.T, isolation string) string {
	t.Helper()
	sb := sandbox(t, isolation)
	cmd := exec.Command(binary, "sandbox", "exec", "-i", sb, "--", "sh", "-c", "mkdir -p ~/.local/bin && cat > ~/.local/bin/claude && chmod +x ~/.local/bin/claude")
	cmd.Env, cmd.Stdin = environ, strings.NewReader(stub)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	snapshot := hortus(t, "sandbox", "snapshot", sb)
	t.Cleanup(func() {
		if _, err := output("snapshot", "rm", snapshot); err != nil {
			t.Error(err)
		}
	})
	return snapshot
}

// relayed starts a relay, and stops it at the end of the test.
func relayed(t *testing.T, args ...string) *relay {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hrelay")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &relay{t: t, dir: filepath.Join(dir, "hooks"), label: filepath.Base(dir)}
	r.cmd = exec.Command(binary, append([]string{"relay", "claude", "--json", "--egress", "example.org", "--label", "relay=" + r.label, r.dir}, args...)...)
	r.cmd.Env, r.cmd.Stderr = environ, &r.stderr
	said, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	var told struct{ HooksDir string }
	if err := json.NewDecoder(said).Decode(&told); err != nil || told.HooksDir != r.dir {
		t.Fatalf("the relay said %+v: %v", told, errors.Join(err, r.stop()))
	}
	return r
}

func (r *relay) stop() error {
	r.once.Do(func() {
		err := r.cmd.Process.Signal(os.Interrupt)
		if werr := r.cmd.Wait(); werr != nil {
			r.err = fmt.Errorf("the relay did not end well: %w\n%s", errors.Join(err, werr), r.stderr.String())
		}
	})
	return r.err
}

// spawn runs the hook as the orchestrator does, and returns its exit code and stderr.
func (r *relay) spawn(order string, more ...string) (int, string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "order.jwt")
	if err := os.WriteFile(file, []byte("head.claims-of-"+order+".signature"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.hook(append([]string{"CLAUDE_RUNNER_WORK_ORDER_FILE=" + file, "CLAUDE_RUNNER_ORDER_ID=" + order,
		"CLAUDE_RUNNER_SESSION_ID=session_of_" + order, "CLAUDE_RUNNER_ATTEMPT=1", "CLAUDE_RUNNER_ACCOUNT_EMAIL=someone@example.org"}, more...)...)
}

func (r *relay) hook(vars ...string) (int, string) {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(r.dir, "spawn-runner"))
	cmd.Env = append(append([]string(nil), environ...), vars...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), stderr.String()
	case err != nil:
		r.t.Fatal(err)
	}
	return 0, stderr.String()
}

// sandboxes returns the sandboxes of the relay that live, by their orders.
func (r *relay) sandboxes() map[string]api.Sandbox {
	r.t.Helper()
	var list []api.Sandbox
	if err := json.Unmarshal([]byte(hortus(r.t, "sandbox", "ls", "--json")), &list); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]api.Sandbox{}
	for _, s := range list {
		if s.Labels["relay"] == r.label {
			if _, twice := out[s.Labels["claude-order"]]; twice {
				r.t.Errorf("order %s has two sandboxes", s.Labels["claude-order"])
			}
			out[s.Labels["claude-order"]] = s
		}
	}
	return out
}

// await waits until the relay has a number of sandboxes.
func (r *relay) await(n int) map[string]api.Sandbox {
	r.t.Helper()
	late := time.Now().Add(patience.Of(time.Minute))
	for {
		got := r.sandboxes()
		if len(got) == n {
			return got
		}
		if time.Now().After(late) {
			r.t.Fatalf("there are %d sandboxes, want %d\n%s", len(got), n, r.stderr.String())
		}
	}
}

// started waits until the runner has started and returns what it said.
func started(t *testing.T, sb api.Sandbox) string {
	t.Helper()
	return inside(t, string(sb.ID), "until [ -e started ]; do sleep 0.05; done; cat started")
}

// TestRelay holds the hook to its contract: one sandbox for an order, exit codes, and nothing
// left at the end of a runner.
func TestRelay(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	snapshot := stubbed(t, "container")
	r := relayed(t, "--template", snapshot, "--isolation", "container", "--ttl", "2h", "--sessions", "2", "--", "--api-url", "https://example.org")
	if code, said := r.spawn("one", "SELF_HOSTED_RUNNER_AGENT_PROXY_URL=https://proxy.example.org"); code != 0 || said != "" {
		t.Fatalf("exit %d: %s", code, said)
	}
	one := r.sandboxes()["one"]
	said := started(t, one)
	deadline := one.ExpiresAt.Unix()
	var retire int64
	for i, word := range strings.Fields(said) {
		if word == "--retire-at" {
			_, _ = fmt.Sscan(strings.Fields(said)[i+1], &retire)
		}
	}
	for _, want := range []string{
		"self-hosted-runner --environment-secret-file /tmp/.hortus-work-order --capacity 1 --health-port 0 --client-label " + string(one.ID) + " --retire-at ",
		" --api-url https://example.org\n", "\nhead.claims-of-one.signature\n", "proxy=https://proxy.example.org",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the runner was started with %q, without %q", said, want)
		}
	}
	if d := deadline - retire; d < 4*60 || d > 6*60 {
		t.Errorf("the runner retires %d s before its sandbox ends", d)
	}
	if one.Labels["claude-session"] != "session_of_one" || strings.Contains(fmt.Sprint(one.Labels), "someone") {
		t.Errorf("the labels are %v", one.Labels)
	}

	// The same order again makes nothing, at the same time too.
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for _, order := range []string{"one", "two"} {
				if code, said := r.spawn(order, "CLAUDE_RUNNER_SESSION_ID="); code != 0 {
					t.Errorf("%s again: exit %d: %s", order, code, said)
				}
			}
		})
	}
	calls.Wait()
	both := r.await(2)
	if s := started(t, both["two"]); !strings.Contains(s, "claims-of-two") || both["two"].Labels["claude-session"] != "" {
		t.Errorf("the second runner: %q, %v", s, both["two"].Labels)
	}

	// Too many: later.
	if code, said := r.spawn("three"); code != 1 || !strings.Contains(said, "maximum") {
		t.Errorf("exit %d: %s", code, said)
	}
	// A runner that ends takes its sandbox with it, and so makes room.
	inside(t, string(one.ID), "echo 'exit 0' > what.new && mv what.new what")
	r.await(1)
	if code, said := r.spawn("three"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	three := r.await(2)["three"]
	inside(t, string(three.ID), "echo 'exit 7' > what.new && mv what.new what")
	r.await(1)
	// An order that is over is not served again.
	if code, _ := r.spawn("one"); code != 0 || len(r.sandboxes()) != 1 {
		t.Errorf("an old order: exit %d, %v", code, r.sandboxes())
	}
	// A sandbox that somebody destroys is the end of the session.
	hortus(t, "sandbox", "kill", string(both["two"].ID))
	r.await(0)
	if code, said := r.spawn("four"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	r.await(1)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if left := r.sandboxes(); len(left) != 0 {
		t.Errorf("after the relay there are %v", left)
	}
	for _, want := range []string{
		"session session_of_one: the runner has ended", "session session_of_three: the runner has failed: exit status 7: doing what it was told",
		"the runner was lost", "ending 1 sessions, within 1m0s", "session session_of_four: the runner has ended",
	} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("the relay did not say %q but\n%s", want, r.stderr.String())
		}
	}
	if left, err := filepath.Glob(r.dir + "/*"); err != nil || len(left) != 0 {
		t.Errorf("in the directory of the hook there are %q, %v", left, err)
	}
}

// TestRelayCodes: what can succeed later is told from what cannot.
func TestRelayCodes(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	can(t, "container")
	snapshot := stubbed(t, "container")
	r := relayed(t, "--template", snapshot, "--isolation", "container")
	file := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(file, []byte("a.b.c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code  int
		words string
		vars  []string
	}{
		{2, "CLAUDE_RUNNER_ORDER_ID is missing", []string{"CLAUDE_RUNNER_WORK_ORDER_FILE=" + file}},
		{2, "the work order is missing", []string{"CLAUDE_RUNNER_ORDER_ID=a"}},
		{1, "CLAUDE_RUNNER_WORK_ORDER_FILE", []string{"CLAUDE_RUNNER_ORDER_ID=a", "CLAUDE_RUNNER_WORK_ORDER_FILE=" + file + "x"}},
		{2, "character", []string{"CLAUDE_RUNNER_ORDER_ID=a b", "CLAUDE_RUNNER_WORK_ORDER_FILE=" + file}},
		{2, "character", []string{"CLAUDE_RUNNER_ORDER_ID=a", "CLAUDE_RUNNER_SESSION_ID=--help x", "CLAUDE_RUNNER_WORK_ORDER_FILE=" + file}},
		{2, "maximum", []string{"CLAUDE_RUNNER_ORDER_ID=" + strings.Repeat("a", 200), "CLAUDE_RUNNER_WORK_ORDER_FILE=" + file}},
		{2, "maximum", []string{"CLAUDE_RUNNER_ORDER_ID=a", "CLAUDE_RUNNER_WORK_ORDER_FILE=/dev/zero"}},
	} {
		if code, said := r.hook(c.vars...); code != c.code || !strings.Contains(said, c.words) {
			t.Errorf("%q: exit %d: %s; want %d and %q", c.vars, code, said, c.code, c.words)
		}
	}
	if left := r.sandboxes(); len(left) != 0 {
		t.Errorf("there are %v", left)
	}
	// The control.
	if code, said := r.hook("CLAUDE_RUNNER_ORDER_ID=a", "CLAUDE_RUNNER_WORK_ORDER_FILE="+file); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	r.await(1)

	// A second relay does not take the first one's place, nor another hook's.
	if _, err := output("relay", "claude", "--egress", "example.org", r.dir); err == nil || !strings.Contains(err.Error(), "another relay") {
		t.Errorf("a second relay: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "spawn-runner"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := output("relay", "claude", "--egress", "example.org", other); err == nil || !strings.Contains(err.Error(), "not a hook of hortus") {
		t.Errorf("over another hook: %v", err)
	}
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := output("relay", "claude", "--egress", "example.org", other); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("in a directory of all: %v", err)
	}
	if _, err := output("relay", "claude", other); err == nil || !strings.Contains(err.Error(), "--egress") {
		t.Errorf("without egress: %v", err)
	}

	// What no try can change, and what another one may.
	wrong := relayed(t, "--template", snapshot, "--isolation", "container", "--claude", "no-such-program")
	if code, said := wrong.spawn("a"); code != 2 || !strings.Contains(said, "no-such-program") || len(wrong.sandboxes()) != 0 {
		t.Errorf("exit %d: %s, %v", code, said, wrong.sandboxes())
	}
	script, err := os.ReadFile(filepath.Join(r.dir, "spawn-runner"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "spawn-runner"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	if code, said := r.spawn("b"); code != 1 || !strings.Contains(said, "hortus relay claude") {
		t.Errorf("without a relay: exit %d: %s", code, said)
	}
}

// TestRelayKilled: a relay that is killed leaves nothing that runs.
func TestRelayKilled(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	snapshot := stubbed(t, "container")
	r := relayed(t, "--template", snapshot, "--isolation", "container")
	for _, order := range []string{"one", "two"} {
		if code, said := r.spawn(order); code != 0 {
			t.Fatalf("exit %d: %s", code, said)
		}
	}
	r.await(2)
	r.once.Do(func() {
		if err := r.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = r.cmd.Wait()
	})
	r.await(0)
}
