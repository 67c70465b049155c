package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/reaper"
)

// TestMain lets the test binary be everything that hortus is.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		// As a package may do while it is initialised: the runtime's poller is there before the stage.
		time.AfterFunc(time.Hour, func() {})
		os.Exit(initns.Become(guest.Main)) // as hortus does
	case birth.Argv0:
		os.Exit(guest.Main())
	case "hortus":
		os.Exit(Main(os.Args[3:])) // hortus daemon run ...
	}
	os.Exit(reaper.Run(func() int {
		defer func() { os.RemoveAll(seeds.dir) }()
		return m.Run()
	}))
}

// connect returns a client of a fresh data directory's daemon, which is stopped
// with the test.
func connect(t *testing.T, dir string) *client.Client {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "layers")); os.IsNotExist(err) {
		withTemplate(t, Config{DataDir: dir, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")})
	}
	c, err := Connect(t.Context(), ConnectOptions{Options: launch.Options{DataDir: dir}})
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(dir, "daemon.log"))
		t.Fatalf("connect: %v (%s)\n%s", err, api.HintOf(err), b)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Of(60*time.Second))
		defer cancel()
		_ = c.Stop(ctx, true) // it may have left by itself
		c.Close()
		free := func() bool {
			return datadir.LockIsFree(filepath.Join(dir, "lock"))
		}
		eventually(t, "the daemon gives its data directory up", free)
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "daemon.log"))
			t.Logf("daemon log:\n%s", b)
		}
	})
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(wait.Of(60 * time.Second))
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// isolated skips a test on a host that cannot isolate, and says why.
func isolated(t *testing.T, c *client.Client) {
	t.Helper()
	d, err := c.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Auto == "" {
		t.Skipf("this host cannot isolate: %s", d.AutoWhy)
	}
}

func TestSentenceToVerifiedProgram(t *testing.T) {
	t.Parallel()
	c := connect(t, t.TempDir())
	isolated(t, c)
	task, err := c.Tasks.Create(t.Context(), api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers"})
	if err != nil {
		t.Fatal(err)
	}
	var last api.Event
	var types []string
	for e, err := range c.Tasks.Events(t.Context(), task.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
		types = append(types, string(e.Type))
	}
	if last.Type != api.EventTaskFinished {
		t.Errorf("events %q", types)
	}
	task, err = c.Tasks.Get(t.Context(), string(task.ID))
	if err != nil || task.Outcome != api.OutcomeVerified || len(task.Attempts) != 1 {
		t.Fatalf("task %+v, %v", task, err)
	}
	if out := task.Attempts[0].Result.Stdout; !strings.Contains(out, "14.8") || !strings.Contains(out, "median: 13\n") {
		t.Errorf("output %q", out)
	}
	if iso := task.Attempts[0].Result.Isolation; iso != "container" {
		t.Errorf("ran in %q", iso)
	}
}

// TestReady waits for readiness and finds the pool full then.
func TestReady(t *testing.T) {
	c := connect(t, filepath.Join(t.TempDir(), "d"))
	isolated(t, c)
	eventually(t, "the daemon is ready", func() bool { return c.Ready(t.Context()) == nil })
	info, err := c.Info(t.Context())
	if err != nil || info.Warm != info.WarmWanted || info.Warm != DefaultPool {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestNextAfterStop begins a command while the daemon before it is leaving: it
// must get one that stays.
func TestNextAfterStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	for range 10 {
		c := connect(t, dir)
		if err := c.Stop(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		next := connect(t, dir)
		for range 3 {
			if _, err := next.Tasks.List(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
}
