package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestNodesCannotReachEachOther cuts two nodes from each other, in both directions or in one: requests that one has to pass on to the other
// fail at once with KindUnavailable, and work again after that. A third node reaches both.
func TestNodesCannotReachEachOther(t *testing.T) {
	tier.Soak(t)
	f := newFarm(t, 3)
	ctx := t.Context()
	box := f.boxOn(2)
	for i := range 3 {
		world.OK(t, f.asks(ctx, i+1, box.ID))
	}
	for _, c := range []struct {
		name      string
		cut, join func()
	}{
		{"both ways", func() { f.Cut(1, 2) }, func() { f.Join(1, 2) }},
		{"requests are lost", func() { f.Drop(1, 2) }, func() { f.Pass(1, 2) }},
		{"answers are lost", func() { f.Drop(2, 1) }, func() { f.Pass(2, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cut()
			for range 3 { // the first one may have a connection that was open: its silence, and one attempt to open another
				began := time.Now()
				err := f.asks(ctx, 1, box.ID)
				if api.KindOf(err) != api.KindUnavailable || time.Since(began) > patience.Of(10*time.Second) {
					t.Errorf("after %s: %s: %v", time.Since(began).Round(time.Millisecond), api.KindOf(err), err)
				}
				t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
			}
			var status int
			var header string
			timed, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			resp := world.Over(t, timed, f.dirs[1], "POST", "/v1/sandboxes/"+string(box.ID)+"/execs", `{"args":["true"]}`)
			if status, header = resp.StatusCode, resp.Header.Get("Retry-After"); status != 503 && status != 502 || header == "" {
				t.Errorf("the answer is %d with Retry-After %q: %s", status, header, world.Text(t, resp))
			}
			world.OK(t, f.asks(ctx, 3, box.ID))
			c.join()
			until(t, "it works again", func(ctx context.Context) bool { return f.asks(ctx, 1, box.ID) == nil })
		})
	}
	if row := world.Must(f.db.Sandbox(ctx, box.ID))(t); row.State != api.SandboxRunning || row.Owner != box.Owner {
		t.Errorf("the sandbox is %s of %s, was of %s", row.State, row.Owner, box.Owner)
	}
}

// TestNodeCannotReachDatabase cuts a node from the database for longer than its lease: it refuses requests by its own clock, another node
// takes over, and what the node still does changes nothing. It ends when it is back.
func TestNodeCannotReachDatabase(t *testing.T) {
	tier.Soak(t)
	f := newFarm(t, 3)
	ctx := t.Context()
	for _, c := range []struct {
		name      string
		cut, join func()
	}{
		{"both ways", func() { f.Cut(0, 2) }, func() { f.Join(0, 2) }},
		{"what it says is lost", func() { f.Drop(2, 0) }, func() { f.Pass(2, 0) }},
		{"answers are lost", func() { f.Drop(0, 2) }, func() { f.Pass(0, 2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			box, task := f.boxOn(2), f.workOn(2)
			c.cut()
			began := time.Now()
			refused := time.Duration(0)
			ask := func(ctx context.Context) {
				timed, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				_, err := f.nodes[2].client.Sandboxes.Get(timed, string(box.ID))
				if err != nil && strings.Contains(err.Error(), "has not reached the database") && api.RetryAfterOf(err) > 0 {
					refused = time.Since(began)
				}
			}
			until(t, "the sandbox is lost", func(ctx context.Context) bool {
				if refused == 0 {
					ask(ctx)
				}
				return world.Must(f.db.Sandbox(ctx, box.ID))(t).State == api.SandboxLost
			})
			lost := time.Since(began)
			if refused == 0 { // both came between two looks: it refuses at once what comes now
				ask(ctx)
			}
			if refused == 0 {
				t.Errorf("the node does not refuse, and another one took over after %s", lost)
			}
			t.Logf("the node refused after %s, another one took over after %s", refused.Round(time.Millisecond), lost.Round(time.Millisecond))
			until(t, "the task runs elsewhere", func(context.Context) bool { return task.runs(t) > 1 })
			if err := f.asks(ctx, 1, box.ID); api.KindOf(err) != api.KindUnavailable && api.KindOf(err) != api.KindConflict {
				t.Errorf("the sandbox of the node that was cut: %v", err)
			}
			task.finish(t) // both programs end now: the node that was cut cannot store what its own did
			until(t, "the task ends", func(ctx context.Context) bool {
				task.Task = world.Must(f.db.Task(ctx, task.ID))(t)
				return task.State == api.TaskDone
			})
			owner := task.Owner
			if f.nodeOf(owner) == "n2" || task.Outcome != api.OutcomeVerified {
				t.Errorf("the task is %s, of node %s: %+v", task.Outcome, f.nodeOf(owner), task.Error)
			}
			c.join()
			f.ended(2)
			row, again := world.Must(f.db.Sandbox(ctx, box.ID))(t), world.Must(f.db.Task(ctx, task.ID))(t)
			if row.State != api.SandboxLost || again.Owner != owner || again.Outcome != api.OutcomeVerified {
				t.Errorf("the node that was cut changed the rows: %s; %s of %s", row.State, again.Outcome, f.nodeOf(again.Owner))
			}
			finished := 0
			for _, e := range world.Must(f.db.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: string(task.ID)}, 0, 1000))(t) {
				if e.Type == api.EventTaskFinished {
					finished++
				}
			}
			if finished != 1 {
				t.Errorf("the task ended %d times", finished)
			}
			f.boot(2)
			world.OK(t, f.asks(ctx, 1, f.boxOn(2).ID))
		})
	}
}

// TestShortCut cuts a node from the database for less than a lease: nothing is lost.
func TestShortCut(t *testing.T) {
	tier.Soak(t)
	f := newFarm(t, 2)
	ctx := t.Context()
	box, task := f.boxOn(2), f.workOn(2)
	f.Cut(0, 2)
	done := make(chan error)
	go func() { done <- f.asks(ctx, 2, box.ID) }()
	before := world.Must(f.db.NodeOfOwner(ctx, box.Owner))(t)
	until(t, "the node is silent for more than one renewal", func(ctx context.Context) bool {
		return world.Must(f.db.NodeOfOwner(ctx, box.Owner))(t).Silence > 5*time.Second
	})
	f.Join(0, 2)
	if err := <-done; err != nil && api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
	until(t, "the node renews its lease", func(ctx context.Context) bool {
		return world.Must(f.db.NodeOfOwner(ctx, box.Owner))(t).BeatAt.After(before.BeatAt.Add(5 * time.Second))
	})
	task.finish(t)
	until(t, "the task ends", func(ctx context.Context) bool {
		task.Task = world.Must(f.db.Task(ctx, task.ID))(t)
		return task.State == api.TaskDone
	})
	if task.Outcome != api.OutcomeVerified || task.runs(t) != 1 {
		t.Errorf("the task: %s, %d runs", task.Outcome, task.runs(t))
	}
	world.OK(t, f.asks(ctx, 1, box.ID))
}
