package wasm_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/wasm"
	"hortus.dev/internal/backend/wasm/guest"
	"hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
	"hortus.dev/test/sandboxtest"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case guest.Argv0:
		os.Exit(guest.Main())
	case run.Argv0:
		os.Exit(run.Main())
	}
	os.Exit(reaper.Run(func() int {
		dir, err := os.MkdirTemp("", "hortus-wasm-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		modules = dir
		return m.Run()
	}))
}

// modules has the compiled interpreters of all tests: to compile one takes seconds.
var modules string

func newBackend(t *testing.T, dir string) *wasm.Backend {
	t.Helper()
	b, err := wasm.New(wasm.Config{Dir: dir, Modules: modules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		dir := t.TempDir()
		return sandboxtest.Fixture{Backend: newBackend(t, dir), OwnKernel: true, Leftovers: func(id api.SandboxID) []string { return leftovers(dir, id) }}
	})
}

// leftovers lists the directory of a sandbox, and whatever has its ID in its environment.
func leftovers(dir string, id api.SandboxID) []string {
	left, _ := filepath.Glob(filepath.Join(dir, string(id)))
	out, _ := exec.Command("sh", "-c", "grep -lsa 'HORTUS_SANDBOX="+string(id)+"' /proc/[0-9]*/environ || true").Output()
	return append(left, strings.Fields(string(out))...)
}

// box is a sandbox.
type box struct {
	t       *testing.T
	machine sandbox.Machine
	guest   *envd.Client
}

func spec(change func(*sandbox.Spec)) sandbox.Spec {
	s := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Hostname: "sandbox", Env: map[string]string{"GIVEN": "value"}}
	if change != nil {
		change(&s)
	}
	return s
}

// start starts a sandbox that is killed, with nothing left, at the end of the test.
func start(t *testing.T, change func(*sandbox.Spec)) *box {
	t.Helper()
	dir := t.TempDir()
	s := spec(change)
	m, err := newBackend(t, dir).Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t, m, envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
	t.Cleanup(func() {
		b.guest.Close()
		if proof, err := m.Kill(context.Background()); err != nil || proof.Left != 0 {
			t.Errorf("kill: %+v, %v", proof, err)
		}
		if left := leftovers(dir, s.ID); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
	return b
}

// result is what a command did.
type result struct {
	out, err string
	end      envd.EndEvent
}

func (b *box) try(o envd.StartOptions, args ...string) (result, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience.Of(120*time.Second))
	defer cancel()
	no := false
	s, err := b.guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: args[0], Args: args[1:]}, Stdin: &no}, o)
	if err != nil {
		return result{}, err
	}
	defer s.Close()
	var r result
	for {
		ev, err := s.Next()
		if err != nil {
			return r, err
		}
		if ev.Data != nil {
			r.out += string(ev.Data.Stdout)
			r.err += string(ev.Data.Stderr)
		}
		if ev.End != nil {
			r.end = *ev.End
			return r, nil
		}
	}
}

// run runs a command and wants its exit code and its output.
func (b *box) run(code int32, out string, args ...string) result {
	b.t.Helper()
	r, err := b.try(envd.StartOptions{}, args...)
	if err != nil {
		b.t.Fatalf("%q: %v", args, err)
	}
	if r.end.ExitCode != code || r.out != out {
		b.t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d, stdout %q", args, r.end.ExitCode, r.out, r.err, code, out)
	}
	return r
}

// js runs a script with QuickJS's modules std and os.
func (b *box) js(code int32, out, script string) result {
	b.t.Helper()
	return b.run(code, out, "qjs", "--std", "-e", script)
}

func (b *box) write(path, content string) {
	b.t.Helper()
	if err := b.guest.WriteFile(b.t.Context(), "", path, strings.NewReader(content)); err != nil {
		b.t.Fatal(err)
	}
}

// TestCommands holds what the shell scripts of the conformance suite hold of other backends.
func TestCommands(t *testing.T) {
	b := start(t, nil)
	b.js(7, "out\n", `print("out"); std.err.puts("err\n"); std.exit(7)`)
	b.js(0, "value /workspace user\n", `print(std.getenv("GIVEN"), std.getenv("PWD"), std.getenv("USER"))`)
	if r := b.js(1, "", `throw new Error("why")`); !strings.Contains(r.err, "why") {
		t.Errorf("stderr %q", r.err)
	}
	b.write("deep/er/a.js", `import {b} from "./b.js"; print(b, scriptArgs[1]);`)
	b.write("deep/er/b.js", `export const b = 6 * 7;`)
	b.run(0, "42 x\n", "qjs", "-m", "deep/er/a.js", "x")
	b.js(0, "", `const f = std.open("made.txt", "w"); f.puts("by a module"); f.close()`)
	r, size, err := b.guest.ReadFile(t.Context(), "", "/workspace/made.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "by a module" || size != int64(len(got)) {
		t.Errorf("%q (announced %d), %v", got, size, err)
	}
	r.Close()
	for _, name := range []string{"sh", "ls", "/bin/sh", "node", "python3"} {
		if _, err := b.try(envd.StartOptions{}, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.try(envd.StartOptions{User: "root"}, "qjs", "-e", "1"); err == nil {
		t.Error("a command ran as root, which the report lacks")
	}
	for cause, o := range map[string]envd.StartOptions{api.CauseTimeout: {Timeout: patience.Of(500 * time.Millisecond)}, api.CauseOutput: {OutputLimit: 100_000}} {
		script := "for (;;) ;"
		if cause == api.CauseOutput {
			script = `for (;;) print("endless")`
		}
		if r, err := b.try(o, "qjs", "-e", script); err != nil || r.end.Cause != cause || len(r.out) > 300_000 {
			t.Errorf("%s: %+v, %v; %d bytes", cause, r.end, err, len(r.out))
		}
	}
	b.js(0, "alive\n", `print("alive")`)
}

// TestInput sends a command more than a pipe holds.
func TestInput(t *testing.T) {
	b := start(t, nil)
	yes := true
	s, err := b.guest.Start(t.Context(), &envd.StartRequest{Stdin: &yes, Process: &envd.ProcessConfig{Cmd: "qjs", Args: []string{"--std", "-e", "print(std.in.readAsString().length)"}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ev, err := s.Next()
	if err != nil || ev.Start == nil {
		t.Fatalf("%+v, %v", ev, err)
	}
	sel := envd.Selector{PID: &ev.Start.PID}
	input := make(chan error, 1)
	go func() {
		w, err := b.guest.StreamInput(t.Context(), sel)
		if err == nil {
			_, err = w.Write(bytes.Repeat([]byte("x"), 300_000))
		}
		if err == nil {
			err = w.Close()
		}
		if err == nil {
			err = b.guest.CloseStdin(t.Context(), sel)
		}
		input <- err
	}()
	out := ""
	for ev.End == nil {
		if ev, err = s.Next(); err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			out += string(ev.Data.Stdout)
		}
	}
	if err := <-input; err != nil || out != "300000\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPrepare(t *testing.T) {
	backend := newBackend(t, t.TempDir())
	s := spec(func(s *sandbox.Spec) { s.Env = nil })
	m, err := backend.Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t, m, envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
	t.Cleanup(func() { b.guest.Close(); m.Kill(context.Background()) })
	if r, err := b.try(envd.StartOptions{WarmUp: true}, "qjs", "-e", `print("warm")`); err != nil || r.out != "warm\n" {
		t.Fatalf("%+v, %v", r, err)
	}
	var early sync.WaitGroup
	early.Go(func() { b.js(0, "claimed\n", `print(std.getenv("GIVEN"))`) })
	if err := m.Claim(t.Context(), map[string]string{"GIVEN": "claimed"}); err != nil {
		t.Fatal(err)
	}
	early.Wait()
	if err := m.Claim(t.Context(), nil); api.KindOf(err) != api.KindConflict {
		t.Errorf("a second claim: %v", err)
	}
}

// TestPause stops the processor time of a command that computes.
func TestPause(t *testing.T) {
	b := start(t, nil)
	no := false
	s, err := b.guest.Start(t.Context(), &envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{Cmd: "qjs", Args: []string{"-e", `print("begun"); for (;;) ;`}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for ev, err := s.Next(); ev.Data == nil; ev, err = s.Next() {
		if err != nil {
			t.Fatal(err)
		}
	}
	used := func() int64 {
		st, err := b.machine.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.CPUTimeMS
	}
	moves := func(from int64) bool {
		for end := time.Now().Add(patience.Of(20 * time.Second)); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if used() > from+20 {
				return true
			}
		}
		return false
	}
	if !moves(used()) {
		t.Fatal("control: the command does not compute")
	}
	if err := b.machine.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := used()
	time.Sleep(100 * time.Millisecond)
	if after := used(); after > before+10 {
		t.Errorf("%d ms of processor time while it was paused", after-before)
	}
	if _, err := b.machine.Link().Open(t.Context()); api.KindOf(err) != api.KindConflict {
		t.Errorf("open while paused: %v", err)
	}
	if err := b.machine.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !moves(before) {
		t.Error("the command does not continue")
	}
}
