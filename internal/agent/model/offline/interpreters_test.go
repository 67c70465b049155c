package offline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

// interpreters finds python3 and node behind their shims, once.
var interpreters = sync.OnceValue(func() map[api.Language]string {
	found := map[api.Language]string{}
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		found[api.Python] = filepath.Dir(strings.TrimSpace(string(out)))
	}
	if p, err := exec.LookPath("node"); err == nil {
		found[api.JavaScript] = filepath.Dir(p)
	}
	return found
})

func needInterpreter(t *testing.T, l api.Language) {
	t.Helper()
	if interpreters()[l] == "" {
		t.Skipf("no interpreter for %s on this machine", l)
	}
}

// runLocal runs an artifact for real, in a temporary folder, and observes it as
// the Executor does.
func runLocal(t *testing.T, a api.CodeArtifact, timeout time.Duration) api.ExecutionResult {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		p := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(f.Content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+a.Run)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + interpreters()[api.Python] + ":" + interpreters()[api.JavaScript] + ":/usr/bin:/bin", "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	res := api.ExecutionResult{OK: err == nil, Phase: api.PhaseRun, Stdout: out.String(), Stderr: errs.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		res.Exit = api.Exit{Code: 137, Signal: "SIGKILL", Cause: api.CauseTimeout}
	case errors.As(err, &exit):
		res.Exit.Code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	if !res.OK {
		res.Category = observe.Categorize(api.PhaseRun, res.Exit, res.Stderr)
	}
	for _, f := range a.Expect {
		b, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil && res.OK {
			t.Errorf("expected file: %v", err)
		}
		res.OutputFiles = append(res.OutputFiles, api.File{Path: f, Content: string(b)})
	}
	return res
}

func newModel(t testing.TB) *Model {
	t.Helper()
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
