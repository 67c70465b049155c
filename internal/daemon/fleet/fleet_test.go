package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// member is a node of a test.
type member struct {
	*fleet.Fleet
	id  api.NodeID
	run api.OwnerID
}

// join joins a node with the rows.
func join(t *testing.T, db *database.DB, name, address string, set ...func(*fleet.Config)) member {
	t.Helper()
	m := member{id: api.NewNodeID(), run: api.NewOwnerID()}
	must(t, db.InsertOwner(t.Context(), store.Owner{ID: m.run, Host: name, LockPath: "/" + name, StartedAt: time.Now(), Node: m.id}))
	cfg := fleet.Config{
		Node: m.id, Owner: m.run, Name: name, Address: address, Rows: db, Sandbox: db.Sandbox, Logger: slog.New(slog.DiscardHandler),
		Template: func(ctx context.Context, _, name string) (api.Snapshot, error) {
			return db.Snapshot(ctx, api.SnapshotID(name))
		},
		Capacity: func(context.Context) api.NodeCapacity { return api.NodeCapacity{MemoryBudget: 8 << 30} },
		Kill:     func(context.Context, api.SandboxID) error { return nil },
		Reach: func(_ context.Context, to forward.Node) error {
			if to.Address == "10.0.0.9:7071" {
				return errors.New("nobody is there")
			}
			return nil
		},
		Lost: func(err error) { t.Error(err) },
	}
	for _, set := range set {
		set(&cfg)
	}
	f, err := fleet.Join(t.Context(), cfg)
	must(t, err)
	m.Fleet = f
	t.Cleanup(func() { must(t, f.Close(context.Background())) })
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// TestLocate finds each kind of thing on the node of its owner.
func TestLocate(t *testing.T) {
	db := open(t)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "team", Role: api.RoleUser})
	a, b, alone := join(t, db, "a", "10.0.0.1:7071"), join(t, db, "b", "10.0.0.2:7071"), join(t, db, "alone", "")
	now := time.Now()
	box, done, lost := api.NewSandboxID(), api.NewSandboxID(), api.NewSandboxID()
	must(t, db.InsertSandbox(ctx, api.Sandbox{ID: box, Owner: b.run, Account: "team", State: api.SandboxRunning, CreatedAt: now}))
	must(t, db.InsertSandbox(ctx, api.Sandbox{ID: done, Owner: b.run, Account: "team", State: api.SandboxEnded, CreatedAt: now, EndedAt: now}))
	must(t, db.InsertSandbox(ctx, api.Sandbox{ID: lost, Owner: alone.run, Account: "team", State: api.SandboxRunning, CreatedAt: now}))
	task, plan, workspace, snapshot := api.NewTaskID(), api.NewPlanID(), api.NewWorkspaceID(), api.NewSnapshotID()
	must(t, db.InsertTask(ctx, api.Task{ID: task, Owner: b.run, Account: "team", State: api.TaskRunning, CreatedAt: now}))
	must(t, db.InsertSession(ctx, store.Session{ID: "c1", Key: "talk", Account: "team", Owner: b.run, CreatedAt: now, Doc: []byte("{}")}, 9))
	must(t, db.InsertPlan(ctx, store.Plan{ID: plan, Repository: "r", Account: "team", Owner: b.run, CreatedAt: now, Doc: []byte("{}")}, 9))
	must(t, db.InsertWorkspace(ctx, api.Workspace{ID: workspace, Name: "files", Account: "team", Owner: b.run, State: api.WorkspaceIdle, CreatedAt: now}))
	must(t, db.InsertSnapshot(ctx, api.Snapshot{ID: snapshot, Account: "team", Owner: b.run, State: api.SnapshotReady, CreatedAt: now}))
	volume := api.NewVolumeID()
	must(t, db.InsertVolume(ctx, api.Volume{ID: volume, Account: "team", Name: "v", Node: b.id, CreatedAt: now}, 9))
	for _, tt := range []struct {
		kind forward.Kind
		id   string
	}{
		{forward.Volume, string(volume)}, {forward.Sandbox, string(box)}, {forward.Sandbox, string(done)}, {forward.Task, string(task)}, {forward.Session, "talk"}, {forward.Plan, string(plan)},
		{forward.Workspace, string(workspace)}, {forward.Snapshot, string(snapshot)},
	} {
		at, err := a.Locate(ctx, tt.kind, tt.id, false)
		if err != nil || at.Here || at.Node.ID != b.id || at.Node.Address != "10.0.0.2:7071" || at.Account != "team" || at.Silent || at.Ended != (tt.id == string(done)) {
			t.Errorf("%s %s: %+v, %v", tt.kind, tt.id, at, err)
		}
		if at, err := b.Locate(ctx, tt.kind, tt.id, false); err != nil || !at.Here {
			t.Errorf("%s on its own node: %+v, %v", tt.kind, at, err)
		}
		if at, err := a.Locate(ctx, tt.kind, "x", false); err != nil || !at.Here {
			t.Errorf("%s that does not exist: %+v, %v", tt.kind, at, err)
		}
	}
	if at, err := a.Locate(ctx, forward.Sandbox, string(lost), false); err != nil || !at.Silent {
		t.Errorf("on a node without a listener: %+v, %v", at, err)
	}
	for name, here := range map[string]bool{"a": true, "b": false, string(b.id): false, "alone": true, "none": true} {
		if at, err := a.Locate(ctx, forward.Machine, name, false); err != nil || at.Here != here {
			t.Errorf("node %s: %+v, %v", name, at, err)
		}
	}

	// A volume of a node that was removed, and one of before the fleet.
	for node, silent := range map[api.NodeID]bool{api.NewNodeID(): true, "": false} {
		id := api.NewVolumeID()
		must(t, db.InsertVolume(ctx, api.Volume{ID: id, Account: "team", Name: "w" + string(node), Node: node, CreatedAt: now}, 9))
		if at, err := a.Locate(ctx, forward.Volume, string(id), false); err != nil || at.Silent != silent || at.Here == silent || at.Account != "team" {
			t.Errorf("a volume of node %q: %+v, %v", node, at, err)
		}
	}

	// All nodes choose the same one to build for an account, one that is ready, and both build for some.
	builds := func(account string) (here bool) {
		t.Helper()
		at, err := a.Locate(ctx, forward.Builds, account, true)
		there, berr := b.Locate(ctx, forward.Builds, account, true)
		if err != nil || berr != nil || at.Here == there.Here || at.Account != account || !at.Here && at.Node.ID != b.id {
			t.Errorf("builds of %s: %+v, %+v, %v, %v", account, at, there, err, berr)
		}
		return at.Here
	}
	count := 0
	for i := range 64 {
		if builds(fmt.Sprint("account", i)) {
			count++
		}
	}
	if count < 10 || count > 54 {
		t.Errorf("a builds for %d of 64 accounts", count)
	}

	// What is made from files is made where they are.
	where := func(n forward.Need) string {
		t.Helper()
		n.Account = "team"
		nodes, err := a.Choose(ctx, n)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return strings.Join(names, " ")
	}
	for what, n := range map[string]forward.Need{
		"a workspace": {Workspace: "files"}, "a workspace by its ID": {Workspace: string(workspace)}, "a snapshot": {Template: string(snapshot)}, "a task again": {Task: task},
	} {
		if got := where(n); got != "b" {
			t.Errorf("%s: %q", what, got)
		}
	}
	for want, n := range map[string]forward.Need{"a": {Kind: forward.Build}, "b": {Kind: forward.Build, Node: b.id}, "a ": {Kind: forward.Build, Node: "gone"}} {
		if got := where(n); got != strings.TrimSpace(want) {
			t.Errorf("a build with files of %q: %q", n.Node, got)
		}
	}
	if got := where(forward.Need{Here: true}); got != "a" {
		t.Errorf("files of this machine: %q", got)
	}
	if got := where(forward.Need{}); !strings.Contains(got, "a") || !strings.Contains(got, "b") || strings.Contains(got, "alone") {
		t.Errorf("anything: %q", got)
	}
}

// TestRoom: what waits on a node could be on another one that is ready, has the free memory and the isolation, and where nothing waits; and it is counted there.
func TestRoom(t *testing.T) {
	const gib = 1 << 30
	for name, tt := range map[string]struct {
		has  api.NodeCapacity
		need forward.Need
		want int // of three that ask one after the other
	}{
		"two fit":               {api.NodeCapacity{MemoryBudget: 8 * gib, MemoryPromised: 5 * gib}, forward.Need{Memory: gib + gib/4}, 2},
		"it is full":            {api.NodeCapacity{MemoryBudget: 8 * gib, MemoryPromised: 8 * gib}, forward.Need{Memory: gib}, 0},
		"others wait":           {api.NodeCapacity{MemoryBudget: 8 * gib, Full: true}, forward.Need{Memory: gib}, 0},
		"the isolation":         {api.NodeCapacity{MemoryBudget: 8 * gib, Isolations: []string{"gvisor"}}, forward.Need{Memory: gib, Isolation: "gvisor"}, 3},
		"another isolation":     {api.NodeCapacity{MemoryBudget: 8 * gib, Isolations: []string{"gvisor"}}, forward.Need{Memory: gib, Isolation: "container"}, 0},
		"files of this node":    {api.NodeCapacity{MemoryBudget: 8 * gib}, forward.Need{Memory: gib, Here: true}, 0},
		"without any sandboxes": {api.NodeCapacity{MemoryBudget: 8 * gib}, forward.Need{Memory: gib}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			a := join(t, db, "a", "10.0.0.1:7071")
			b := join(t, db, "b", "10.0.0.2:7071", func(c *fleet.Config) { c.Capacity = func(context.Context) api.NodeCapacity { return tt.has } })
			got := 0
			for range 3 {
				if a.Room(t.Context(), tt.need) {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("%d could, want %d", got, tt.want)
			}
			if _, err := b.Drain(t.Context(), "b", admin.DrainNode{}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Nodes(t.Context()); err != nil { // looks again
				t.Fatal(err)
			}
			if a.Room(t.Context(), tt.need) {
				t.Error("a node that drains takes it")
			}
		})
	}
}

// TestTakers: a task of a node that drains continues where its isolation and its template are, and never where files of its machine are not.
func TestTakers(t *testing.T) {
	db, ctx := open(t), t.Context()
	a := join(t, db, "a", "10.0.0.1:7071")
	join(t, db, "b", "10.0.0.2:7071", func(c *fleet.Config) {
		c.Capacity = func(context.Context) api.NodeCapacity {
			return api.NodeCapacity{MemoryBudget: 8 << 30, Isolations: []string{"container"}, Templates: []string{"python"}}
		}
	})
	takers := func(s api.CreateSandbox, here bool) (int, api.Kind) {
		all, err := a.Takers(ctx, api.CreateTask{Sandbox: s}, here)
		return len(all), api.KindOf(err)
	}
	if n, kind := takers(api.CreateSandbox{}, false); n != 0 || kind != api.KindConflict {
		t.Errorf("%d nodes take a task of a node that does not drain: %s", n, kind)
	}
	_, err := a.Drain(ctx, "a", admin.DrainNode{})
	must(t, err)
	for _, c := range []struct {
		isolation, template string
		here                bool
		want                int
		kind                api.Kind
	}{
		{"", "", false, 1, ""}, {"auto", "host", false, 1, ""}, {"container", "python", false, 1, ""}, {"gvisor", "", false, 0, api.KindUnavailable}, {"", "other", false, 0, api.KindUnavailable},
		{"", "", true, 0, api.KindUnsupported},
	} {
		if n, kind := takers(api.CreateSandbox{Isolation: c.isolation, Template: c.template}, c.here); n != c.want || kind != c.kind {
			t.Errorf("%+v: %d nodes, %s", c, n, kind)
		}
	}
	for range 20 {
		takers(api.CreateSandbox{}, false)
	}
	if !a.Room(ctx, forward.Need{Memory: 8 << 30}) {
		t.Error("a question counts as something that was placed")
	}
}

// TestHandOver: work goes to the first node that has not ended, and is said to; what has stopped comes back to its own node if there is none. Meanwhile no node has it.
func TestHandOver(t *testing.T) {
	db := open(t)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "team", Role: api.RoleUser})
	a, b, c := join(t, db, "a", "10.0.0.1:7071"), join(t, db, "b", "10.0.0.2:7071"), join(t, db, "c", "10.0.0.3:7071")
	nodes, err := db.Nodes(ctx)
	must(t, err)
	others := nodes[1:]
	must(t, db.EndOwner(ctx, b.run, time.Now()))
	talk := func(key string) api.SessionID {
		id := api.NewSessionID()
		must(t, db.InsertSession(ctx, store.Session{ID: id, Key: key, Account: "team", Owner: a.run, CreatedAt: time.Now(), Doc: []byte("{}")}, 9))
		return id
	}
	at := func(f member, key string) forward.Location {
		t.Helper()
		l, err := f.Locate(ctx, forward.Session, key, true)
		must(t, err)
		return l
	}
	goes, stays, returns := talk("goes"), talk("stays"), talk("returns")
	said := func(id api.SessionID) admin.WorkMove { return admin.WorkMove{Session: id} }
	must(t, a.HandOver(ctx, store.Work{Session: goes}, others, false, said(goes)))
	if err := a.HandOver(ctx, store.Work{Session: stays}, others[:1], false, said(stays)); api.KindOf(err) != api.KindConflict {
		t.Errorf("to a node that has ended: %v", err)
	}
	if err := a.HandOver(ctx, store.Work{Session: stays}, nil, false, said(stays)); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("to no node: %v", err)
	}
	must(t, a.HandOver(ctx, store.Work{Session: returns}, others[:1], true, said(returns)))
	for _, key := range []string{"goes", "returns"} {
		if l := at(a, key); !l.Here || !l.Away || l.Account != "team" {
			t.Errorf("%s at its former node: %+v", key, l)
		}
		if l := at(c, key); l.Here || !l.Away || l.Node.Name != "a" {
			t.Errorf("%s at another node: %+v", key, l)
		}
	}
	if l := at(a, "stays"); !l.Here || l.Away {
		t.Errorf("what stays: %+v", l)
	}
	for owner, want := range map[api.OwnerID]int{c.run: 1, a.run: 1} {
		if all, err := db.InheritOwners(ctx, owner, time.Hour, nil); err != nil || len(all) != want {
			t.Errorf("an heir inherits %+v, %v", all, err)
		}
	}
	row, err := db.Session(ctx, goes)
	must(t, err)
	was := row.Owner
	row.Owner = c.run
	must(t, db.UpdateSession(ctx, was, row))
	if l := at(a, "goes"); l.Here || l.Away || l.Node.Name != "c" {
		t.Errorf("when the other node has it: %+v", l)
	}
	out, err := a.Drain(ctx, "a", admin.DrainNode{})
	if err != nil || len(out.Work) != 1 || out.Work[0] != (admin.WorkMove{Session: goes, State: admin.MoveDone, To: "c"}) {
		t.Errorf("the drain says %+v, %v", out.Work, err)
	}
}

// TestCommands: what hortus fleet does.
func TestCommands(t *testing.T) {
	db, ctx := open(t), t.Context()
	a, b := join(t, db, "a", "10.0.0.1:7071"), join(t, db, "b", "10.0.0.2:7071")
	if f, err := a.Nodes(ctx); err != nil || f.Initialized || len(f.Nodes) != 2 || f.Self != a.id {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := a.Identity().Client(ctx, b.id); api.KindOf(err) != api.KindUnavailable || !strings.Contains(api.HintOf(err), "hortus fleet init") {
		t.Errorf("without an authority: %v", err)
	}
	for _, already := range []bool{false, true} {
		if f, err := a.Init(ctx); err != nil || !f.Initialized || f.Already != already {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if _, err := b.Identity().Client(ctx, a.id); err != nil {
		t.Error(err)
	}
	join(t, db, "away", "10.0.0.9:7071")
	join(t, db, "deaf", "")
	if f, err := a.Nodes(ctx); err != nil || len(f.Nodes) != 4 {
		t.Errorf("%+v, %v", f, err)
	} else {
		for _, n := range f.Nodes {
			if want := map[string]string{"away": "nobody is there"}[n.Name]; n.Unreached != want {
				t.Errorf("node %s: %q, want %q", n.Name, n.Unreached, want)
			}
		}
	}
	if _, err := fleet.Join(ctx, fleet.Config{Node: api.NewNodeID(), Owner: a.run, Name: "b", Rows: db, Capacity: func(context.Context) api.NodeCapacity { return api.NodeCapacity{} }}); api.KindOf(err) != api.KindExists {
		t.Errorf("a second b: %v", err)
	}
	if _, err := fleet.Join(ctx, fleet.Config{Node: api.NewNodeID(), Owner: a.run, Name: "d", Address: "10.0.0.2:7071", Rows: db, Capacity: func(context.Context) api.NodeCapacity { return api.NodeCapacity{} }}); api.KindOf(err) != api.KindExists || !strings.Contains(api.HintOf(err), "fleet.address") {
		t.Errorf("a second 10.0.0.2:7071: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := a.Remove(ctx, name); api.KindOf(err) != api.KindConflict {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if _, err := a.Drain(ctx, "c", admin.DrainNode{}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("drain c: %v", err)
	}
	if out, err := b.Drain(ctx, "b", admin.DrainNode{}); err != nil || out.Node.State != api.NodeDraining || !b.Draining() {
		t.Errorf("%+v, %v", out, err)
	}
	for _, name := range []string{"a", "away"} {
		if _, err := b.Drain(ctx, name, admin.DrainNode{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Choose(ctx, forward.Need{}); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "draining") {
		t.Errorf("all drain: %v", err)
	}
}
