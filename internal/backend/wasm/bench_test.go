package wasm_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/tier"
)

// fib computes for a while, without input and output.
const fib = `function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } console.log(fib(27))`

// TestFigures measures, in one run, from the claim of a guest that was booted ahead to the first
// result in JavaScript, and the time of a computation against the interpreters of this host. The
// figures are printed, not judged: they depend on what else the machine does.
func TestFigures(t *testing.T) {
	tier.Soak(t)
	backend := newBackend(t, t.TempDir())
	var first []time.Duration
	for range 30 {
		s := spec(func(s *sandbox.Spec) { s.Env = nil })
		m, err := backend.Prepare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		b := &box{t, m, envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
		if _, err := b.try(envd.StartOptions{WarmUp: true}, "qjs", "-e", "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // the next process loads its interpreter
		begin := time.Now()
		if err := m.Claim(t.Context(), map[string]string{"A": "b"}); err != nil {
			t.Fatal(err)
		}
		b.run(0, "42\n", "qjs", "-e", "console.log(6 * 7)")
		first = append(first, time.Since(begin))
		b.guest.Close()
		m.Kill(context.Background())
	}
	slices.Sort(first)
	t.Logf("claim to the first result in JavaScript: least %v, median %v, 90%% %v, worst of %d %v", first[0], first[len(first)/2], first[len(first)*9/10], len(first), first[len(first)-1])

	b := start(t, nil)
	least := func(run func()) time.Duration {
		var d []time.Duration
		for range 5 {
			begin := time.Now()
			run()
			d = append(d, time.Since(begin))
		}
		return slices.Min(d)
	}
	t.Logf("fib(27) in a wasm sandbox: %v", least(func() { b.run(0, "196418\n", "qjs", "-e", fib) }))
	for _, native := range []string{"node", "qjs"} {
		path, err := exec.LookPath(native)
		if err != nil {
			t.Logf("fib(27) with %s: not on this host", native)
			continue
		}
		t.Logf("fib(27) with %s: %v", native, least(func() {
			if out, err := exec.Command(path, "-e", fib).Output(); err != nil || strings.TrimSpace(string(out)) != "196418" {
				t.Errorf("%s: %q, %v", native, out, err)
			}
		}))
	}
}
