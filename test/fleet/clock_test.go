package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/internal/server/key"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// clocks are nodes with an archive: a with the clock of the database, and others, b and so on, whose clocks are wrong.
type clocks struct {
	base
	a       *world.World
	names   []string
	ahead   []time.Duration
	clients []*client.Client
	urls    []string
	// last is the last node.
	last child
	dir  string
}

func newClocks(t *testing.T, ahead ...time.Duration) *clocks {
	t.Helper()
	k := &clocks{base: newBase(t), ahead: append([]time.Duration{0}, ahead...)}
	k.a = k.base.open(t, 1)[0]
	k.archive = t.TempDir()
	k.names, k.clients, k.urls = []string{"a"}, []*client.Client{k.a.Client}, []string{k.a.URL}
	for i, d := range ahead {
		k.names, k.dir = append(k.names, string(rune('b'+i))), k.base.dir(t)
		k.last = k.start(t, k.names[i+1], d)
		k.clients = append(k.clients, k.last.client)
		k.urls = append(k.urls, world.Must(k.last.client.Info(t.Context()))(t).URL)
	}
	return k
}

// start starts the last node, with a clock that is ahead.
func (k *clocks) start(t *testing.T, name string, ahead time.Duration) child {
	t.Helper()
	programs := tools.Dir(t)
	guest := world.Must(os.ReadFile(filepath.Join(programs, tools.Guest)))(t)
	bin := filepath.Join(k.dir, "bin")
	world.OK(t, os.MkdirAll(bin, 0o700))
	world.OK(t, os.WriteFile(gvisorbuild.GuestPath(bin), guest, 0o700))
	return k.startWith(t, name, k.dir, k.archive, map[string]string{
		skewVariable: ahead.String(), "HORTUS_RUNSC": filepath.Join(programs, tools.Runsc), "HORTUS_DAEMON_SERVE": "true", "HORTUS_LISTEN": "127.0.0.1:0",
	})
}

// on creates a sandbox on a node.
func (k *clocks) on(t *testing.T, name string, req api.CreateSandbox) *client.Sandbox {
	t.Helper()
	return k.by(t, k.clients[slices.Index(k.names, name)], name, req)
}

// by creates a sandbox on a node through any.
func (k *clocks) by(t *testing.T, c *client.Client, name string, req api.CreateSandbox) (made *client.Sandbox) {
	t.Helper()
	until(t, "a sandbox is on node "+name, func(ctx context.Context) bool {
		made = world.Must(c.Sandboxes.Create(ctx, req))(t)
		row := world.Must(made.Info(ctx))(t)
		if row.Node == name {
			return true
		}
		world.Must(made.Kill(ctx))(t)
		return false
	})
	return made
}

// since reports whether a time that a node stored is between another one and now, by a clock that is right.
func since(began, at time.Time) bool {
	const slack = 2 * time.Second
	return at.Sub(began) > -slack && time.Since(at) > -slack
}

// TestClocks: a node, or two of three, have a wrong clock, by an hour or a day. What they store, and what ends at a time, is as if their clocks were right.
func TestClocks(t *testing.T) {
	for _, ahead := range [][]time.Duration{{25 * time.Hour}, {time.Hour, -time.Hour}, {25 * time.Hour, -25 * time.Hour}} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			if len(ahead) > 1 {
				tier.Soak(t)
			}
			t.Parallel()
			k := newClocks(t, ahead...)
			k.testNodes(t)
			t.Run("times to live", k.testLives)
			t.Run("keys", k.testKeys)
			t.Run("idempotency keys", k.testOnce)
			t.Run("commands", k.testCommands)
			t.Run("garbage", k.testGarbage)
			if len(ahead) > 1 {
				t.Run("drain", k.testDrain)
				t.Run("death", k.testDeath)
			}
		})
	}
}

// testNodes: nodes trust each other, whatever their clocks say, and say how wrong these are.
func (k *clocks) testNodes(t *testing.T) {
	t.Helper()
	for i, c := range k.clients {
		until(t, "nodes reach each other and report their clocks to "+k.names[i], func(ctx context.Context) bool {
			f := world.Must(c.FleetNodes(ctx))(t)
			return len(f.Nodes) == len(k.names) && !slices.ContainsFunc(f.Nodes, func(n admin.FleetNode) bool {
				off := time.Duration(n.Capacity.ClockAheadMS)*time.Millisecond - k.ahead[slices.Index(k.names, n.Name)]
				return n.Unreached != "" || n.Gone || off.Abs() > patience.Of(5*time.Second)
			})
		})
	}
}

// testLives: a sandbox ends when its time to live has passed, on each node, and each node says when that is.
func (k *clocks) testLives(t *testing.T) {
	ctx, a := t.Context(), k.a
	const ttl = 3 * time.Second
	type life struct {
		s     *client.Sandbox
		began time.Time
	}
	var lives []life
	for _, name := range append([]string{"b", "a"}, k.names[2:]...) {
		began := time.Now()
		s := k.on(t, name, api.CreateSandbox{Isolation: "process", TTLMS: ttl.Milliseconds()})
		row := world.Must(a.DB.Sandbox(ctx, s.ID()))(t)
		if !since(began, row.CreatedAt) || row.ExpiresAt.Sub(row.CreatedAt) != ttl {
			t.Errorf("the sandbox of %s was created at %s and ends at %s; it is %s", name, row.CreatedAt, row.ExpiresAt, time.Now().UTC())
		}
		lives = append(lives, life{s, began})
	}
	// Lists have the newest first, whichever node made it.
	listed := world.Must(a.Client.Sandboxes.List(ctx, true))(t)
	place := func(l life) int {
		return slices.IndexFunc(listed, func(s api.Sandbox) bool { return s.ID == l.s.ID() })
	}
	for i := range lives[1:] {
		if place(lives[i+1]) >= place(lives[i]) {
			t.Errorf("in a list, the newest first, sandbox %d is at %d, and the one that was made before at %d", i+1, place(lives[i+1]), place(lives[i]))
		}
	}
	for i, l := range lives {
		var row api.Sandbox
		until(t, "the time to live ends", func(ctx context.Context) bool {
			row = world.Must(a.DB.Sandbox(ctx, l.s.ID()))(t)
			return row.State.Final()
		})
		lived := row.EndedAt.Sub(row.CreatedAt)
		if real := time.Since(l.began); real < ttl || lived < ttl-time.Second || lived > real+time.Second {
			t.Errorf("sandbox %d lived for %s in its row, and at most %s; its time to live was %s", i, lived, real, ttl)
		}
		var last time.Time
		events := world.Must(a.DB.ReadEvents(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(l.s.ID())}, 0, 1000))(t)
		for _, e := range events {
			if e.At.Before(last) || !since(l.began, e.At) {
				t.Errorf("event %s is of %s", e.Type, e.At)
			}
			last = e.At
		}
		if len(events) == 0 {
			t.Error("no events")
		}
	}
}

// testKeys: a key that was made on one node ends at the same time on all.
func (k *clocks) testKeys(t *testing.T) {
	ctx := t.Context()
	// The other keys are made here, with a clock that is late: nobody can wait for a minute.
	made := func(ago time.Duration) api.CreatedKey {
		keys := key.New(key.Config{Rows: k.a.DB, Now: func() time.Time { return time.Now().Add(-ago) }})
		return world.Must(keys.Create(ctx, api.CreateKey{Name: "late", Account: "team", Role: api.RoleAdmin, ExpiresInMS: api.MinKeyLife.Milliseconds()}))(t)
	}
	ended, lasts := made(api.MinKeyLife+time.Second), made(0)
	for i, url := range k.urls {
		began := time.Now()
		own := world.Must(k.clients[i].Keys.Create(ctx, api.CreateKey{Name: "own", Account: "team", Role: api.RoleAdmin, ExpiresInMS: api.MinKeyLife.Milliseconds()}))(t)
		if !since(began, own.ExpiresAt.Add(-api.MinKeyLife)) {
			t.Errorf("a key of node %s that lives a minute ends at %s; it is %s", k.names[i], own.ExpiresAt, time.Now().UTC())
		}
		if status, body := call(t, "GET", url+"/v1/sandboxes", "", "X-API-Key", ended.Secret); status != 401 {
			t.Errorf("a key that has ended, at node %s: %d %s", k.names[i], status, body)
		}
		for j, at := range k.urls {
			for what, key := range map[string]api.CreatedKey{"made a moment ago": lasts, "made on node " + k.names[i]: own} {
				if status, body := call(t, "GET", at+"/v1/sandboxes", "", "X-API-Key", key.Secret); status != 200 {
					t.Errorf("a key that was %s, at node %s: %d %s", what, k.names[j], status, body)
				}
			}
		}
		// The node that a request is passed on to ends it with the key.
		c := world.Must(client.Remote(k.urls[(i+1)%len(k.urls)], own.Secret))(t)
		s := k.by(t, c, k.names[i], api.CreateSandbox{Isolation: "process"})
		if out, err := world.Sh(t, s, "echo here"); err != nil || out != "here\n" {
			t.Errorf("a command on node %s, through another one: %q, %v", k.names[i], out, err)
		}
		world.Must(s.Kill(ctx))(t)
		c.Close()
	}
}

// testOnce: what was made with an idempotency key is not made again, also if another node thinks that the key has ended.
func (k *clocks) testOnce(t *testing.T) {
	ctx := t.Context()
	var want api.SandboxID
	for n := range 2 * len(k.names) {
		i := n % len(k.names)
		other := world.Must(k.clients[i].Sandboxes.Create(client.WithIdempotencyKey(ctx, "other-"+k.names[i]), api.CreateSandbox{Isolation: "process"}))(t)
		s := world.Must(k.clients[i].Sandboxes.Create(client.WithIdempotencyKey(ctx, "order"), api.CreateSandbox{Isolation: "process"}))(t)
		if want == "" {
			want = s.ID()
		}
		if s.ID() != want || other.ID() == want {
			t.Errorf("node %s made %s with a key that %s was made with", k.names[i], s.ID(), want)
		}
	}
}

// testCommands: a command has not ended before it began.
func (k *clocks) testCommands(t *testing.T) {
	ctx := t.Context()
	for _, name := range k.names {
		began := time.Now()
		s := k.on(t, name, api.CreateSandbox{Isolation: "process"})
		if out, err := world.Sh(t, s, "echo here"); err != nil || out != "here\n" {
			t.Fatalf("%q, %v", out, err)
		}
		all := world.Must(world.Must(k.clients[0].Sandboxes.Get(ctx, string(s.ID())))(t).Execs(ctx))(t)
		if len(all) != 1 || !since(began, all[0].StartedAt) || !since(began, all[0].EndedAt) || all[0].EndedAt.Before(all[0].StartedAt) {
			t.Errorf("on node %s: %+v", name, all)
		}
		world.Must(s.Kill(ctx))(t)
	}
}

// testGarbage: a node removes nothing of a task that has just ended.
func (k *clocks) testGarbage(t *testing.T) {
	ctx := t.Context()
	minute := time.Minute.Milliseconds()
	for i, name := range k.names {
		var task api.Task
		began := time.Now()
		until(t, "a task is on node "+name, func(ctx context.Context) bool {
			task = world.Must(k.clients[i].Tasks.Create(ctx, api.CreateTask{
				Artifact: &api.CodeArtifact{Language: "bash", Files: []api.File{{Path: "main.sh", Content: "echo hello"}}, Run: "bash main.sh"}, Sandbox: api.CreateSandbox{Isolation: "process"},
			}))(t)
			until(t, "the task ends", func(ctx context.Context) bool {
				task = world.Must(k.clients[i].Tasks.Get(ctx, string(task.ID)))(t)
				return task.State == api.TaskDone
			})
			return world.Must(k.a.DB.NodeOfOwner(ctx, task.Owner))(t).Name == name
		})
		if !since(began, task.CreatedAt) || !since(began, task.EndedAt) || task.EndedAt.Before(task.CreatedAt) || task.Outcome != api.OutcomeVerified {
			t.Errorf("the task of node %s: %s, from %s to %s; it is %s", name, task.Outcome, task.CreatedAt, task.EndedAt, time.Now().UTC())
		}
		found := world.Must(k.clients[i].Collect(ctx, admin.CollectRequest{OlderThanMS: &minute, DryRun: true}))(t)
		for _, it := range found.Items {
			if it.Part == admin.PartTasks || it.Part == admin.PartWorkspaces || it.Part == admin.PartSnapshots {
				t.Errorf("node %s would remove %+v", name, it)
			}
		}
	}
}

// testDrain: a sandbox that is moved from a node whose clock is ahead to one whose clock is behind keeps what is left of its time to live.
func (k *clocks) testDrain(t *testing.T) {
	ctx := t.Context()
	world.Isolates(t, k.clients[1], "gvisor")
	nodes{k.a}.ready(t, "c")
	s := k.on(t, "b", api.CreateSandbox{Isolation: "gvisor", TTLMS: (10 * time.Minute).Milliseconds(), Limits: api.Limits{MemoryBytes: 128 << 20}})
	was := world.Must(s.Info(ctx))(t)
	out := drain(t, k.clients[0], "b")
	if i := slices.IndexFunc(out.Moves, func(m admin.SandboxMove) bool { return m.Sandbox == s.ID() }); i < 0 || out.Moves[i].State != admin.MoveDone || out.Moves[i].To != "c" {
		t.Fatalf("%+v", out)
	}
	for i, c := range k.clients {
		row := world.Must(world.Must(c.Sandboxes.Get(ctx, string(s.ID())))(t).Info(ctx))(t)
		if later := row.ExpiresAt.Sub(was.ExpiresAt); row.State != api.SandboxRunning || row.Node != "c" || later < -time.Second || later > patience.Of(time.Minute) {
			t.Errorf("node %s says that it is %s on %s, and ends at %s instead of %s", k.names[i], row.State, row.Node, row.ExpiresAt, was.ExpiresAt)
		}
	}
	const ttl = 3 * time.Second
	began := time.Now()
	world.Must(s.SetTTL(ctx, ttl))(t)
	until(t, "the time to live ends", func(ctx context.Context) bool {
		return world.Must(k.a.DB.Sandbox(ctx, s.ID()))(t).State.Final()
	})
	if lived := time.Since(began); lived < ttl {
		t.Errorf("it ended after %s", lived)
	}
}

// testDeath: leases are by the clock of the database, and what another node marks as lost has not ended before it began. The dead node is started again with a clock that is right.
func (k *clocks) testDeath(t *testing.T) {
	ctx := t.Context()
	lost, kept := k.on(t, "c", api.CreateSandbox{Isolation: "process"}), k.on(t, "a", api.CreateSandbox{Isolation: "process"})
	killed := time.Now()
	world.OK(t, k.last.Process.Kill())
	_ = k.last.Wait()
	var row api.Sandbox
	until(t, "the sandbox of the dead node is lost", func(ctx context.Context) bool {
		row = world.Must(k.a.DB.Sandbox(ctx, lost.ID()))(t)
		return row.State == api.SandboxLost
	})
	if after := time.Since(killed); after < 6*time.Second || !since(killed, row.EndedAt) || row.EndedAt.Before(row.CreatedAt) {
		t.Errorf("lost %s after its node was killed, at %s, created at %s", after, row.EndedAt, row.CreatedAt)
	}
	if row := world.Must(k.a.DB.Sandbox(ctx, kept.ID()))(t); row.State != api.SandboxRunning {
		t.Errorf("the sandbox of a node that lives is %s: %s", row.State, row.Reason)
	}
	k.ahead[len(k.ahead)-1] = 0
	k.clients[len(k.clients)-1] = k.start(t, "c", 0).client
	k.testNodes(t)
}

// TestClockOfDatabaseIsSet: somebody sets the clock of the database, first ahead and then back. No node is found silent, nothing that runs ends, nodes trust each other, and
// a node that dies then is noticed.
func TestClockOfDatabaseIsSet(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	ctx, k := t.Context(), newClocks(t, 0)
	db := world.Must(sql.Open("pgx", k.store.URL))(t)
	defer db.Close()
	set := func(by time.Duration) {
		_, err := db.ExecContext(ctx, fmt.Sprintf(`CREATE OR REPLACE FUNCTION now_micros() RETURNS BIGINT LANGUAGE sql VOLATILE AS
			$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT + %d $$`, by.Microseconds()))
		world.OK(t, err)
		k.ahead = []time.Duration{-by, -by}
	}
	boxes := []*client.Sandbox{k.on(t, "a", api.CreateSandbox{Isolation: "process", TTLMS: time.Hour.Milliseconds()}), k.on(t, "b", api.CreateSandbox{Isolation: "process", TTLMS: time.Hour.Milliseconds()})}
	for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		set(by)
		began := time.Now()
		k.testNodes(t) // they have read the clock
		until(t, "two leases have passed", func(ctx context.Context) bool {
			for _, s := range boxes {
				if row := world.Must(k.a.DB.Sandbox(ctx, s.ID()))(t); row.State != api.SandboxRunning {
					t.Fatalf("%s after the clock was set by %s, sandbox %s is %s: %s", time.Since(began), by, row.ID, row.State, row.Reason)
				}
			}
			return time.Since(began) > 2*fleet.Lease
		})
		for i, c := range k.clients {
			for _, s := range boxes {
				if out, err := world.Sh(t, world.Must(c.Sandboxes.Get(ctx, string(s.ID())))(t), "echo here"); err != nil || out != "here\n" {
					t.Errorf("through node %s, after the clock was set by %s: %q, %v", k.names[i], by, out, err)
				}
			}
		}
	}
	world.OK(t, k.last.Process.Kill())
	_ = k.last.Wait()
	until(t, "the sandbox of the dead node is lost", func(ctx context.Context) bool {
		return world.Must(k.a.DB.Sandbox(ctx, boxes[1].ID()))(t).State == api.SandboxLost
	})
	k.start(t, "b", 0)
}
