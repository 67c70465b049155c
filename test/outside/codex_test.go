package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/modelserver"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// Variable names a directory in which the packages of package-lock.json are installed.
const Variable = "HORTUS_OUTSIDE"

// installed finds the packages, or skips the test with the reason.
func installed(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("no cache to look for the packages in: %v", err)
		}
		dir = filepath.Join(cache, "hortus-outside")
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err == nil && !bytes.Equal(lock, there) {
		err = fmt.Errorf("%s is of other versions", dir)
	}
	if err != nil {
		if os.Getenv(Variable) != "" {
			t.Fatalf("the packages are not in %s=%s: %v", Variable, dir, err)
		}
		t.Skipf("the packages are not installed: %v; mkdir -p %s && cp test/outside/package*.json %s && npm ci --ignore-scripts --prefix %s", err, dir, dir, dir)
	}
	return dir
}

// program finds a program of the packages, of this machine's architecture.
func program(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(installed(t), "node_modules", pattern))
	if err != nil || len(found) != 1 {
		t.Skipf("the packages have no program for %s: %q, %v", runtime.GOARCH, found, err)
	}
	return found[0]
}

// codex is a Codex with a home and a model of its own.
type codex struct {
	t                  *testing.T
	program, home, dir string
	// mode is its own sandbox, which is to be off.
	mode  string
	model *modelserver.Server
}

// newCodex makes one that works in a directory, which must exist on this machine too.
func newCodex(t *testing.T, scenario string) *codex {
	t.Helper()
	c := &codex{t: t, program: program(t, "@openai/codex-linux-*/vendor/*/bin/codex"), home: t.TempDir(), mode: "danger-full-access"}
	var err error
	if c.dir, err = os.MkdirTemp("/tmp", "hortus-outside"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Nothing of the work may be here.
		if err := os.Remove(c.dir); err != nil {
			t.Errorf("the directory on this machine: %v", err)
			os.RemoveAll(c.dir)
		}
	})
	if c.model, err = modelserver.New([]byte("key: k\nside: ignore\n" + scenario)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c.model)
	t.Cleanup(server.Close)
	c.write("config.toml", fmt.Sprintf(`model = "m"
model_provider = "p"
approval_policy = "never"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.p]
name = "p"
base_url = "%s/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
`, server.URL))
	return c
}

func (c *codex) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.home, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// item is what Codex says it did.
type item struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Item     struct {
		Type   string `json:"type"`
		Output string `json:"aggregated_output"`
		Text   string `json:"text"`
		Status string `json:"status"`
		Exit   *int   `json:"exit_code"`
	} `json:"item"`
}

// exec runs "codex exec" and returns what was completed.
func (c *codex) exec(url string, args ...string) (done []item, thread string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience.Of(2*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, append([]string{"exec", "--json", "--skip-git-repo-check", "--sandbox", c.mode, "-C", c.dir}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "CODEX_HOME=" + c.home, "MODEL_KEY=k", "NO_PROXY=127.0.0.1"}
	if url != "" {
		cmd.Env = append(cmd.Env, "CODEX_EXEC_SERVER_URL="+url)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("codex: %v\n%s%s", err, out, stderr.Bytes())
	}
	for text := range strings.Lines(string(out)) {
		var i item
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			c.t.Fatalf("codex said %q: %v", text, err)
		}
		switch i.Type {
		case "thread.started":
			thread = i.ThreadID
		case "item.completed":
			done = append(done, i)
		}
	}
	if len(done) == 0 {
		c.t.Fatalf("codex did nothing:\n%s%s", out, stderr.Bytes())
	}
	return done, thread
}

// scenario writes a file by a patch, runs a command, reads back, and types into a terminal.
const scenario = `
-- 1 --
wire: responses
call: exec_command

{"cmd":"cat origin; pwd; exit 3"}
-- 2 --
wire: responses
last: only in SANDBOX
call: exec_command

{"cmd":"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: sub/new.txt\n+one\n*** Update File: origin\n@@\n-only in SANDBOX\n+changed in SANDBOX\n*** End Patch\nEOF"}
-- 3 --
wire: responses
call: exec_command

{"cmd":"echo ready; sleep 1000","tty":true,"yield_time_ms":300}
-- 4 --
wire: responses
call: exec_command

{"cmd":"cat sub/new.txt origin"}
-- 5 --
wire: responses
last: changed in SANDBOX

First done.
-- 6 --
wire: responses
expect: First done.
call: exec_command

{"cmd":"echo follow-up; cat origin"}
-- 7 --
wire: responses
last: follow-up

Second done.
`

// TestCodex: the unmodified Codex works in sandboxes of every isolation, and continues its
// conversation there.
func TestCodex(t *testing.T) {
	tier.Soak(t)
	installed(t)
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			sb := sandbox(t, isolation)
			c := newCodex(t, strings.ReplaceAll(scenario, "SANDBOX", sb))
			inside(t, sb, "mkdir "+c.dir+" && echo only in "+sb+" > "+c.dir+"/origin")
			url := serve(t, sb).url
			done, thread := c.exec(url, "Do it.")
			var outputs []string
			var last string
			for _, i := range done {
				if i.Item.Type == "command_execution" {
					outputs = append(outputs, i.Item.Output)
				}
				if i.Item.Type == "file_change" && i.Item.Status != "completed" {
					t.Errorf("the patch is %s", i.Item.Status)
				}
				last = i.Item.Text
			}
			want := fmt.Sprintf("only in %s\n%s\n", sb, c.dir)
			if len(outputs) < 2 || outputs[0] != want || outputs[len(outputs)-1] != "one\nchanged in "+sb+"\n" || last != "First done." {
				t.Errorf("%q, %q", outputs, last)
			}
			if got := inside(t, sb, "cd "+c.dir+" && cat sub/new.txt origin"); got != "one\nchanged in "+sb {
				t.Errorf("in the sandbox there is %q", got)
			}
			gone(t, sb, "sleep 1000") // of the terminal that Codex left

			done, _ = c.exec(url, "resume", thread, "Go on.")
			if n := len(done); n < 2 || done[n-2].Item.Output != "follow-up\nchanged in "+sb+"\n" || done[n-1].Item.Text != "Second done." {
				t.Errorf("the follow-up: %+v", done)
			}
			if p := c.model.Problems(); len(p) > 0 {
				t.Errorf("the model: %q", p)
			}
		})
	}
}

// TestCodexStartsServer: an environment of Codex's configuration starts the server, on its
// standard streams. There is no other environment.
func TestCodexStartsServer(t *testing.T) {
	tier.Soak(t)
	sb := sandbox(t, "container")
	c := newCodex(t, "\n-- 1 --\nwire: responses\ncall: exec_command\n\n{\"cmd\":\"cat origin\"}\n-- 2 --\nwire: responses\n\nDone.\n")
	inside(t, sb, "mkdir "+c.dir+" && echo only in "+sb+" > "+c.dir+"/origin")
	text := fmt.Sprintf("default = \"hortus\"\ninclude_local = false\n\n[[environments]]\nid = \"hortus\"\nprogram = %q\nargs = [\"sandbox\", \"codex\", \"--stdio\", %q]\n\n[environments.env]\n", binary, sb)
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		text += fmt.Sprintf("%s = %q\n", name, value)
	}
	c.write("environments.toml", text)
	done, _ := c.exec("", "Do it.")
	if n := len(done); n < 2 || done[n-2].Item.Output != "only in "+sb+"\n" || done[n-1].Item.Text != "Done." {
		t.Errorf("%+v", done)
	}
}

// TestCodexDirect: Codex reaches the daemon itself, and shows its key.
func TestCodexDirect(t *testing.T) {
	tier.Soak(t)
	sb := sandbox(t, "container")
	c := newCodex(t, "\n-- 1 --\nwire: responses\ncall: exec_command\n\n{\"cmd\":\"cat origin\"}\n-- 2 --\nwire: responses\n\nDone.\n")
	inside(t, sb, "mkdir "+c.dir+" && echo only in "+sb+" > "+c.dir+"/origin")
	c.write("environments.toml", fmt.Sprintf("default = \"hortus\"\ninclude_local = false\n\n[[environments]]\nid = \"hortus\"\nurl = %q\nauth_bearer_token = %q\n", direct(sb), key))
	done, _ := c.exec("", "Do it.")
	if n := len(done); n < 2 || done[n-2].Item.Output != "only in "+sb+"\n" || done[n-1].Item.Text != "Done." {
		t.Errorf("%+v", done)
	}
}

// TestCodexRefusal: with a sandbox of its own, Codex gets told what to do.
func TestCodexRefusal(t *testing.T) {
	tier.Soak(t)
	sb := sandbox(t, "container")
	c := newCodex(t, "\n-- 1 --\nwire: responses\ncall: exec_command\n\n{\"cmd\":\"touch made\"}\n-- 2 --\nwire: responses\nlast: run codex with --sandbox danger-full-access\n\nDone.\n")
	inside(t, sb, "mkdir "+c.dir)
	c.mode = "workspace-write"
	c.exec(serve(t, sb).url, "Do it.")
	if got := inside(t, sb, "ls "+c.dir); got != "" {
		t.Errorf("the command ran: %q", got)
	}
	if p := c.model.Problems(); len(p) > 0 {
		t.Errorf("the model: %q", p)
	}
}
