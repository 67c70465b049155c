package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// outage is a fleet whose database is behind a proxy.
type outage struct {
	server *postgrestest.Server
	proxy  *postgrestest.Proxy
	all    nodes
	// box has a sandbox on each node, and work a task.
	box  []*client.Sandbox
	work []*work
}

// work is a task whose program runs until it is told to end.
type work struct {
	api.Task
	dir string
}

// begin starts a task. Its program is told by a file to end.
func begin(t *testing.T, c *client.Client) *work {
	t.Helper()
	w := &work{dir: t.TempDir()}
	program := fmt.Sprintf("import os, time\nopen(%q + '/begun-' + str(os.getpid()), 'w')\nwhile not os.path.exists(%q): time.sleep(0.05)\nprint('done')\n", w.dir, w.dir+"/go")
	w.Task = world.Must(c.Tasks.Create(t.Context(), api.CreateTask{
		Artifact: &api.CodeArtifact{Language: "python", Files: []api.File{{Path: "main.py", Content: program}}, Run: "python3 main.py"},
		Sandbox:  api.CreateSandbox{Isolation: "process"}, RunTimeoutMS: 600_000,
	}))(t)
	return w
}

// runs counts how often the program was started.
func (w *work) runs(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob(w.dir + "/begun-*")
	world.OK(t, err)
	return len(all)
}

func (w *work) finish(t *testing.T) {
	t.Helper()
	world.OK(t, os.WriteFile(w.dir+"/go", nil, 0o600))
}

// newOutage starts a fleet with a sandbox on each node, and tasks that run.
func newOutage(t *testing.T, n int) *outage {
	t.Helper()
	return outageOf(t, postgrestest.Start(t), n)
}

func outageOf(t *testing.T, server *postgrestest.Server, n int) *outage {
	t.Helper()
	o := &outage{server: server}
	o.proxy = o.server.Proxy(t)
	b := base{store: daemon.Store{URL: o.proxy.URL(o.server.Database(t))}, key: make([]byte, 32)}
	o.all = b.open(t, n)
	for _, w := range o.all {
		s := world.Sandbox(t, w.Client, api.CreateSandbox{Isolation: "process"})
		t.Cleanup(func() { s.Close() })
		o.box = append(o.box, s)
		work := begin(t, w.Client)
		until(t, "the program of a task runs", func(context.Context) bool { return work.runs(t) == 1 })
		o.work = append(o.work, work)
	}
	return o
}

// finished checks that nothing was lost: each sandbox still runs a command, and each task ends with its first program's output.
func (o *outage) finished(t *testing.T) {
	t.Helper()
	for i, s := range o.box {
		var out string
		var last error
		until(t, "a sandbox runs a command", func(context.Context) bool {
			var err error
			out, err = world.Sh(t, s, "echo here")
			if err != nil && (last == nil || err.Error() != last.Error()) {
				last = err
				t.Logf("sandbox %d: %v", i, err)
			}
			return err == nil
		})
		if out != "here\n" {
			t.Errorf("sandbox %d printed %q", i, out)
		}
	}
	for i, w := range o.work {
		w.finish(t)
		c := o.all[(i+1)%len(o.all)].Client
		until(t, "a task ends", func(ctx context.Context) bool {
			var err error
			w.Task, err = c.Tasks.Get(ctx, string(w.ID))
			world.OK(t, err)
			return w.State == api.TaskDone
		})
		if w.Outcome != api.OutcomeVerified || w.runs(t) != 1 || len(w.Attempts) != 1 || w.Attempts[0].Result == nil || !strings.Contains(w.Attempts[0].Result.Stdout, "done") {
			t.Errorf("task %d: %s, %d runs, %+v, %+v", i, w.Outcome, w.runs(t), w.Error, w.Attempts)
		}
		seen := 0
		for _, e := range world.All(t, c.Tasks.Events(t.Context(), w.ID, 0)) {
			if seen++; e.Seq != int64(seen) {
				t.Errorf("task %d: event %d has number %d", i, seen, e.Seq)
			}
		}
	}
}

// clients work while the database is away: each call ends with its result, or with KindUnavailable.
type clients struct {
	cancel context.CancelFunc
	joined sync.WaitGroup
	mu     sync.Mutex
	made   map[api.SandboxID]bool
	codes  map[string]int // by their scripts
	failed int
	done   int
}

// exitCode returns the exit code of a command that ran.
func exitCode(err error) (int, error) {
	var exit *client.ExitError
	if errors.As(err, &exit) && exit.Cause == "" {
		return exit.Code, nil
	}
	return 0, err
}

// busy starts clients of all nodes, until stop.
func (o *outage) busy(t *testing.T) *clients {
	ctx, cancel := context.WithCancel(t.Context())
	c := &clients{cancel: cancel, made: map[api.SandboxID]bool{}, codes: map[string]int{}}
	fail := func(what string, err error) {
		select {
		case <-time.After(max(api.RetryAfterOf(err), 100*time.Millisecond)): // as clients do
		case <-ctx.Done():
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed++
		if kind := api.KindOf(err); kind != api.KindUnavailable && ctx.Err() == nil {
			t.Errorf("%s: %s: %v", what, kind, err)
		}
	}
	for i, w := range o.all {
		c.joined.Go(func() {
			for ctx.Err() == nil {
				s, err := w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"})
				if err != nil {
					fail("create", err)
					continue
				}
				c.mu.Lock()
				c.made[s.ID()] = true
				c.done++
				c.mu.Unlock()
				if _, err := s.Kill(ctx); err != nil {
					fail("kill", err)
				}
				s.Close()
			}
		})
		c.joined.Go(func() {
			s := o.box[(i+1)%len(o.box)] // of another node, perhaps
			for n := 0; ctx.Err() == nil; n = (n + 1) % 100 {
				tag := fmt.Sprintf("exit %d # %s", n, rand.Text())
				code, err := exitCode(s.Command(ctx, "sh", "-c", tag).Run())
				if err != nil {
					fail("command", err)
					continue
				}
				if code != n {
					t.Errorf("a command ended with %d, want %d", code, n)
				}
				c.mu.Lock()
				c.codes[tag] = code
				c.done++
				c.mu.Unlock()
			}
		})
	}
	return c
}

// progress waits until the clients had n more results.
func (c *clients) progress(t *testing.T, n int) {
	t.Helper()
	count := func() int { c.mu.Lock(); defer c.mu.Unlock(); return c.done }
	want := count() + n
	until(t, "clients get results", func(context.Context) bool { return count() >= want })
}

// stop ends the clients, and compares what they were told with the rows.
func (c *clients) stop(t *testing.T, o *outage) {
	t.Helper()
	c.cancel()
	c.joined.Wait()
	db := o.all[0].DB
	for id := range c.made {
		if _, err := db.Sandbox(t.Context(), id); err != nil {
			t.Errorf("a sandbox that was made: %v", err)
		}
	}
	rows := map[string]api.Exec{}
	for _, s := range o.box {
		world.Must(s.Execs(t.Context()))(t) // its node stores what it has in its file before it answers
		for _, x := range world.Must(db.ListExecs(t.Context(), s.ID()))(t) {
			rows[x.Args[len(x.Args)-1]] = x
		}
	}
	for script, code := range c.codes {
		if row := rows[script]; row.State != api.ExecExited || row.Exit.Code != code {
			t.Errorf("a command that ended with %d: %+v", code, row)
		}
	}
	t.Logf("%d results, %d calls failed", c.done, c.failed)
}

// TestDatabaseRestarts stops and kills the database under clients, commands and tasks, for less than a lease.
func TestDatabaseRestarts(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	o := newOutage(t, 2)
	c := o.busy(t)
	for _, end := range []func() error{o.server.Stop, o.server.Kill} {
		c.progress(t, 20)
		world.OK(t, end())
		world.OK(t, o.server.Run())
	}
	c.progress(t, 20)
	c.stop(t, o)
	o.finished(t)
}

// TestDatabaseAway takes the database away for longer than the lease of a node: nodes refuse requests, and nobody takes over what others
// have. The end of a command that happens meanwhile is stored later.
func TestDatabaseAway(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	o := newOutage(t, 3)
	ctx := t.Context()
	dir := t.TempDir()
	running := o.box[0].Command(ctx, "sh", "-c", fmt.Sprintf("echo begun; while [ ! -e %s/go ]; do sleep 0.05; done; echo ended; exit 9", dir))
	world.OK(t, running.Start())
	world.OK(t, o.server.Stop())
	for i, w := range o.all {
		until(t, "a node refuses", func(ctx context.Context) bool {
			timed, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := w.Client.Sandboxes.Get(timed, string(o.box[i].ID()))
			return api.KindOf(err) == api.KindUnavailable && strings.Contains(err.Error(), "has not reached the database") && api.RetryAfterOf(err) > 0
		})
	}
	world.OK(t, os.WriteFile(dir+"/go", nil, 0o600))
	world.OK(t, o.server.Run())
	o.finished(t)
	until(t, "the end of the command is stored", func(ctx context.Context) bool {
		for _, row := range world.Must(o.all[1].DB.ListExecs(ctx, o.box[0].ID()))(t) {
			if strings.Contains(row.Args[2], dir) {
				return row.State == api.ExecExited && row.Exit.Code == 9
			}
		}
		return false
	})
	_ = running.Wait()
}

// TestEventsOfLongOutage: tasks that end while the server has been away for longer than statements wait have all of their events when it is back.
func TestEventsOfLongOutage(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	o := newOutage(t, 2)
	kinds := func(w *work) (all []api.EventType) {
		for _, e := range world.All(t, o.all[0].Client.Tasks.Events(t.Context(), w.ID, 0)) {
			all = append(all, e.Type)
		}
		return slices.Compact(all) // output is in one piece or in several
	}
	world.OK(t, o.server.Kill())
	passes := func(d time.Duration) {
		began := time.Now()
		until(t, "time passes", func(context.Context) bool { return time.Since(began) > d })
	}
	passes(21 * time.Second)
	for _, w := range o.work {
		w.finish(t)
	}
	passes(3 * time.Second) // the programs print and end
	world.OK(t, o.server.Run())
	o.finished(t)
	plain := begin(t, o.all[0].Client)
	plain.finish(t)
	until(t, "a task ends", func(ctx context.Context) bool {
		return world.Must(o.all[0].Client.Tasks.Get(ctx, string(plain.ID)))(t).State == api.TaskDone
	})
	want := kinds(plain)
	for i, w := range o.work {
		if got := kinds(w); !slices.Equal(got, want) {
			t.Errorf("the events of task %d are %v, want %v", i, got, want)
		}
	}
}

// TestSlowDatabase holds what the database answers: requests wait, and have their results when it goes on.
func TestSlowDatabase(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	o := newOutage(t, 2)
	o.proxy.Hold()
	made := make(chan error, len(o.all))
	for _, w := range o.all {
		go func() {
			s, err := w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
			if err == nil {
				_, err = s.Kill(t.Context())
			}
			made <- err
		}()
	}
	until(t, "the database is asked", func(context.Context) bool { return o.proxy.Waiting() >= len(o.all) })
	select {
	case err := <-made:
		t.Errorf("an answer without a database: %v", err)
	default:
	}
	o.proxy.Release()
	for range o.all {
		world.OK(t, <-made)
	}
	o.finished(t)
}

// TestDatabaseFailsOver has a synchronous standby take over under clients, commands and tasks, after a crash of the first server.
func TestDatabaseFailsOver(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	server := postgrestest.Start(t)
	standby := server.Standby(t)
	o := outageOf(t, server, 3)
	c := o.busy(t)
	c.progress(t, 20)
	world.OK(t, o.server.Kill())
	began := time.Now()
	standby.Promote(t)
	o.proxy.To(standby)
	c.progress(t, 20)
	t.Logf("clients had results again %s after the crash", time.Since(began).Round(time.Millisecond))
	c.stop(t, o)
	o.finished(t)
}

// TestPooler has a fleet behind PgBouncer in transaction mode, whose server restarts.
func TestPooler(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	o := &outage{server: postgrestest.Start(t)}
	name := o.server.Database(t)
	b := base{store: daemon.Store{URL: o.server.Pooler(t)(name)}, key: make([]byte, 32)}
	o.all = b.open(t, 2)
	for _, w := range o.all {
		o.box = append(o.box, world.Sandbox(t, w.Client, api.CreateSandbox{Isolation: "process"}))
		o.work = append(o.work, begin(t, w.Client))
	}
	until(t, "the programs run", func(context.Context) bool { return o.work[0].runs(t)+o.work[1].runs(t) == 2 })
	c := o.busy(t)
	c.progress(t, 20)
	world.OK(t, o.server.Stop())
	world.OK(t, o.server.Run())
	c.progress(t, 20)
	c.stop(t, o)
	o.finished(t)
}

// TestDatabaseBackForOneNode: after an outage one node reaches the database before another one. It does not take over what the other one has.
func TestDatabaseBackForOneNode(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	server := postgrestest.Start(t)
	name, key := server.Database(t), make([]byte, 32)
	var all nodes
	var proxies []*postgrestest.Proxy
	for range 2 {
		p := server.Proxy(t)
		proxies = append(proxies, p)
		b := base{store: daemon.Store{URL: p.URL(name)}, key: key}
		all = append(all, world.Open(t, world.Config{Config: daemon.Config{DataDir: b.dir(t), Store: b.store, Fleet: daemon.FleetConfig{Name: string(rune('a' + len(all))), Listen: "127.0.0.1:0"}}}))
	}
	world.Must(all[0].Client.InitFleet(t.Context()))(t)
	first, second := all[0], all[1]
	var box *client.Sandbox
	until(t, "a sandbox is on node b", func(ctx context.Context) bool {
		box = world.Sandbox(t, second.Client, api.CreateSandbox{Isolation: "process"})
		has, _ := all.of(t, box.ID())
		return has == second
	})
	for _, p := range proxies {
		p.To(nil)
	}
	refuses := func(w *world.World) func(context.Context) bool {
		return func(ctx context.Context) bool {
			timed, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := w.Client.Sandboxes.Get(timed, string(box.ID()))
			return err != nil && strings.Contains(err.Error(), "has not reached the database")
		}
	}
	until(t, "node a refuses", refuses(first))
	until(t, "node b refuses", refuses(second))
	proxies[0].To(server)
	var was store.Node
	for range 2 {
		until(t, "node a renews its lease", func(ctx context.Context) bool {
			row := world.Must(first.DB.Sandbox(ctx, box.ID()))(t)
			if row.State != api.SandboxRunning {
				t.Fatalf("the sandbox of the other node is %s: %s", row.State, row.Reason)
			}
			n := world.Must(first.DB.Nodes(ctx))(t)[0]
			renewed := n.BeatAt.After(was.BeatAt) && n.Silence < time.Second
			if renewed {
				was = n
			}
			return renewed
		})
	}
	proxies[1].To(server)
	until(t, "node b serves", func(ctx context.Context) bool { return !refuses(second)(ctx) })
	if out, err := world.Sh(t, box, "echo here"); err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
