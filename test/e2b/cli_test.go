package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCLI uses E2B's own command line on a sandbox: commands and their exit codes, logs,
// and a terminal whose client has no size.
func TestCLI(t *testing.T) {
	t.Parallel()
	modules := installed(t)
	for _, name := range []string{"node", "script"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	s := serve(t, "container")
	cli := filepath.Join(modules, "node_modules", "@e2b", "cli", "dist", "index.js")
	id := makeSandbox(t, s)
	e2b := func(stdin string, args ...string) (string, int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), longest())
		defer cancel()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "E2B_API_KEY="+s.key, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url, "NO_COLOR=1", "HOME="+shared)
		cmd.Stdin = strings.NewReader(stdin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		name string
		args []string
		in   string
		code int
		says string
	}{
		{"list", []string{"node", cli, "sandbox", "list"}, "", 0, id},
		{"exec", []string{"node", cli, "sandbox", "exec", id, "--", "sh", "-c", "echo inside; exit 3"}, "", 3, `inside`},
		{"logs", []string{"node", cli, "sandbox", "logs", id}, "", 0, `WARN.*ended with 3`},
		{"logs as JSON", []string{"node", cli, "sandbox", "logs", "--format", "json", id}, "", 0, `"level":"warn".*"logger":"process".*"message":"ended with 3`},
		// script gives a terminal of 0 by 0 where it has none itself.
		{"connect without a size", []string{"script", "-qec", "node " + cli + " sandbox connect " + id, os.DevNull}, "stty size; exit\n", 0, `24 80`},
		{"kill", []string{"node", cli, "sandbox", "kill", id}, "", 0, `killed`},
	} {
		if out, code := e2b(c.in, c.args...); code != c.code || !regexp.MustCompile(c.says).MatchString(out) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", c.name, code, c.code, c.says, out)
		}
	}
}

// makeSandbox makes one that lives for some minutes.
func makeSandbox(t *testing.T, s server) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/sandboxes", strings.NewReader(`{"templateID":"base","timeout":600}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	var got struct{ SandboxID string }
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || got.SandboxID == "" {
		t.Fatal(fmt.Errorf("%s %s: %w", resp.Status, b, err))
	}
	return got.SandboxID
}
