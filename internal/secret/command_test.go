package secret_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
)

// runs returns how many lines a file has: one for each run of a command.
func runs(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// TestCommandIsKept: the output is used for the lifetime, of the row that it is of, and a secret's
// command does not run twice at a time.
func TestCommandIsKept(t *testing.T) {
	f := newFixture(t, nil)
	dir := t.TempDir()
	// It fails if it runs at the same time as itself.
	script := `cd ` + dir + ` && mkdir busy && echo >>runs && rmdir busy && echo ` + canary + `-$(wc -l <runs)`
	req := shell(script)
	req.LifetimeMS = 60_000
	if row := f.set(t, "token", req); row.LifetimeMS != 60_000 {
		t.Errorf("%+v", row)
	}
	count := filepath.Join(dir, "runs")
	if n := runs(t, count); n != 1 {
		t.Fatalf("it ran %d times when it was set", n)
	}
	all := func(value string) {
		t.Helper()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { f.want(t, "token", value) })
		}
		wg.Wait()
	}
	all(canary + "-1")
	f.clock.Advance(59 * time.Second)
	all(canary + "-1")
	f.clock.Advance(time.Second)
	all(canary + "-2")
	if n := runs(t, count); n != 2 {
		t.Errorf("it ran %d times", n)
	}
	// A secret that was set again is another one, also with the same command.
	f.clock.Advance(time.Microsecond)
	f.set(t, "token", req)
	all(canary + "-3")
	if _, err := f.Remove(t.Context(), "a", "token"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Value(t.Context(), "a", "token"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("removed: %v", err)
	}
	if row := f.set(t, "other", shell("echo "+canary)); row.LifetimeMS != secrets.DefaultLifetime.Milliseconds() {
		t.Errorf("%+v", row)
	}
}

// TestCommandFails: an error names the exit and never the output, and is the answer for a while.
func TestCommandFails(t *testing.T) {
	f := newFixture(t, func(c *secret.Config) { c.Environ = []string{"PATH=/usr/bin:/bin", "TOKEN=" + canary} })
	for what, c := range map[string]struct {
		req  secrets.Set
		part string
		kind api.Kind
	}{
		"an exit":          {shell("echo " + canary + "; echo " + canary + " >&2; exit 7"), "exit status 7", api.KindUnavailable},
		"a signal":         {shell("echo " + canary + "; kill -TERM $$"), "signal: terminated", api.KindUnavailable},
		"no such program":  {fromCommand("hortus-no-such-program"), "cannot be started", api.KindUnavailable},
		"no such file":     {fromCommand("/no/such/program"), "cannot be started", api.KindUnavailable},
		"no output":        {fromCommand("true"), "0 bytes", api.KindInvalid},
		"short":            {shell("echo 1234567"), "7 bytes", api.KindInvalid},
		"two lines":        {shell("echo " + canary + "; echo"), "line break", api.KindInvalid},
		"endless output":   {fromCommand("yes", canary), "more than", api.KindUnavailable},
		"too much output":  {shell("head -c 65540 /dev/zero"), "more than", api.KindUnavailable},
		"no shell":         {fromCommand("echo", canary+"\n"+canary), "line break", api.KindInvalid},
		"it reads nothing": {fromCommand("cat"), "0 bytes", api.KindInvalid},
	} {
		_, err := f.Set(t.Context(), "a", "token", c.req)
		fails(t, what, err, c.kind, c.part)
	}
	// Without a shell nothing is expanded; the environment is the daemon's.
	f.set(t, "plain", fromCommand("echo", "$TOKEN; "+canary))
	f.want(t, "plain", "$TOKEN; "+canary)
	f.set(t, "env", fromCommand("printenv", "TOKEN"))
	f.want(t, "env", canary)

	dir := t.TempDir()
	count := filepath.Join(dir, "runs")
	req := shell("echo >>" + count + "; test ! -e " + dir + "/broken && echo " + canary)
	req.LifetimeMS = 60_000
	f.set(t, "later", req)
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	for range 3 {
		_, err := f.Value(t.Context(), "a", "later")
		fails(t, "later", err, api.KindUnavailable, "exit status 1")
	}
	if n := runs(t, count); n != 2 {
		t.Errorf("it ran %d times; a failure is not kept", n)
	}
	if err := os.Remove(filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(5 * time.Second)
	f.want(t, "later", canary)
}

// TestCommandEnds: a command that takes too long ends with everything that it started, and so do
// the processes that a command leaves behind.
func TestCommandEnds(t *testing.T) {
	f := newFixture(t, func(c *secret.Config) { c.Timeout = 200 * time.Millisecond })
	dir := t.TempDir()
	pipe := filepath.Join(dir, "alive")
	// What runs has the file locked: the lock is free when all of it has ended.
	held := func(script string) secrets.Set {
		return shell("exec 9>" + pipe + "; flock -n 9 || exit 9; " + script)
	}
	free := func(what string) {
		t.Helper()
		f.want(t, "free", canary)
		row := held("echo " + canary)
		// The lock is free once the processes are gone; killing is done when Set returns, and a
		// killed process needs a moment.
		var err error
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if _, err = f.Set(t.Context(), "a", "next", row); err == nil {
				return
			}
		}
		t.Errorf("%s: something still runs: %v", what, err)
	}
	f.set(t, "free", stored(canary))
	_, err := f.Set(t.Context(), "a", "slow", held("sleep 1000 & sleep 1000"))
	fails(t, "slow", err, api.KindUnavailable, "did not end within 200ms")
	free("slow")
	_, err = f.Set(t.Context(), "a", "closed", held("exec >&-; sleep 1000"))
	fails(t, "it closed its output", err, api.KindUnavailable, "did not end within 200ms")
	free("it closed its output")
}

// TestCommandLeavesNothing: the output of a command is used when it has ended, though a process
// that it started has the pipe open; that process is killed.
func TestCommandLeavesNothing(t *testing.T) {
	f := newFixture(t, nil)
	pidFile := filepath.Join(t.TempDir(), "pid")
	f.set(t, "left", shell("sleep 1000 & echo $! >"+pidFile+"; echo "+canary))
	f.want(t, "left", canary)
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return // it is gone, or waits for its new parent
		}
		if time.Now().After(deadline) {
			t.Fatalf("the process that the command left runs: %s", stat)
		}
	}
}

// TestCommandOfACaller: a caller that leaves ends its run, and the next one runs the command anew.
func TestCommandOfACaller(t *testing.T) {
	f := newFixture(t, nil)
	dir := t.TempDir()
	begun, slow := filepath.Join(dir, "begun"), filepath.Join(dir, "slow")
	req := shell("if test -e " + slow + "; then echo >" + begun + "; sleep 1000; fi; echo " + canary)
	req.LifetimeMS = 1000
	f.set(t, "token", req)
	if err := os.WriteFile(slow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := f.Value(ctx, "a", "token")
		errs <- err
	}()
	for runs(t, begun) == 0 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody else waits for the same run, and leaves.
	other, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.Value(other, "a", "token"); api.KindOf(err) != api.KindCanceled {
		t.Errorf("another one that left: %v", err)
	}
	if err := os.Remove(slow); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-errs; api.KindOf(err) != api.KindCanceled {
		t.Errorf("the one that left: %v", err)
	}
	f.want(t, "token", canary)
}
