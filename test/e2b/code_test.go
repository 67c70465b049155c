package e2b

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"hortus.dev/test/tier"
)

// TestCodeInterpreter uses E2B's client of code interpreters, unmodified.
func TestCodeInterpreter(t *testing.T) { script(t, "code.mjs") }

// TestTemplateBuild builds templates with E2B's SDK, unmodified.
func TestTemplateBuild(t *testing.T) { script(t, "build.mjs") }

// script runs a script of this directory on each isolation.
func script(t *testing.T, name string) {
	t.Parallel()
	modules := installed(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	for _, isolation := range tier.First(1, isolations) {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			s := serve(t, isolation)
			ctx, cancel := context.WithTimeout(t.Context(), longest())
			defer cancel()
			cmd := exec.CommandContext(ctx, node, name)
			cmd.Env = append(os.Environ(), Variable+"="+modules, "HORTUS_E2B_ISOLATION="+isolation,
				"E2B_API_KEY="+s.key, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCharts draws figures with E2B's client of code interpreters, unmodified. What sandboxes need is not on every machine.
func TestCharts(t *testing.T) {
	tier.Soak(t)
	if out, err := exec.Command("/usr/bin/python3", "-c", "import matplotlib, pandas").CombinedOutput(); err != nil {
		t.Skipf("this machine's Python, which sandboxes see, has no matplotlib or no pandas (apt install python3-matplotlib python3-pandas): %s", out)
	}
	script(t, "charts.mjs")
}
