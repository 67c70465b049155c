package fleet

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestRoomElsewhere: a sandbox that waits on a full node is made on a node that joins, and one that waits in a full fleet where another sandbox ends.
func TestRoomElsewhere(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.sandboxes = 1
	all := b.open(t, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	c := all[0].Client
	type made struct {
		*client.Sandbox
		err error
	}
	told := make(chan api.WaitingEvent, 100)
	create := func() <-chan made {
		to := make(chan made, 1)
		go func() {
			s, err := c.Sandboxes.Create(api.WithWaitTold(ctx, func(e api.WaitingEvent) { told <- e }), api.CreateSandbox{})
			to <- made{s, err}
		}()
		return to
	}
	// on returns the node of a sandbox that was made.
	on := func(m made) *world.World {
		t.Helper()
		world.OK(t, m.err)
		w, _ := all.of(t, m.ID())
		return w
	}
	waiting := func(n int) {
		t.Helper()
		until(t, "a create waits", func(ctx context.Context) bool {
			sum := 0
			for _, x := range world.Must(c.FleetNodes(ctx))(t).Nodes {
				sum += x.Capacity.Waiting
			}
			return sum == n
		})
	}
	first := <-create()
	on(first)
	hears := func() {
		t.Helper()
		if e := <-told; e.Cause != api.WaitSandboxes {
			t.Errorf("told %+v", e)
		}
	}
	second := create()
	waiting(1)
	hears()
	all = b.add(t, all)
	joined := <-second
	if on(joined) != all[1] {
		t.Error("what waited is not on the node that joined")
	}
	third := create() // it waits on one of them, and the other one is going to have room
	waiting(1)
	hears()
	ends, stays := first, all[0]
	for i, x := range world.Must(c.FleetNodes(ctx))(t).Nodes {
		if x.Capacity.Waiting == 0 {
			stays = all[i]
		}
	}
	if stays == all[1] {
		ends = joined
	}
	world.Must(ends.Kill(ctx))(t)
	if got := on(<-third); got != stays {
		t.Error("what waited is not where another sandbox ended")
	}
	// The client hears of two that wait, on whichever nodes, and ends both.
	fourth := create()
	waiting(1)
	hears()
	fifth := create()
	waiting(2)
	hears()
	leave()
	for _, one := range []<-chan made{fourth, fifth} {
		if m := <-one; api.KindOf(m.err) != api.KindCanceled {
			t.Error(m.err)
		}
	}
	waiting(0)
}

// TestFullFleet: in a fleet without capacity a create waits as long as the operator says, at whichever node, and then fails with the reason.
func TestFullFleet(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	b := newBase(t)
	b.sandboxes, b.patience = 1, 6*time.Second // longer than a request has for the rest of its body
	all := b.open(t, 2)
	ctx := t.Context()
	for range all {
		world.Must(all[0].Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
	}
	var asked sync.WaitGroup
	for _, x := range all {
		asked.Go(func() {
			began := time.Now()
			_, err := x.Client.Sandboxes.Create(ctx, api.CreateSandbox{})
			if took := time.Since(began); api.KindOf(err) != api.KindExhausted || took < b.patience || !strings.Contains(err.Error(), "sandboxes") {
				t.Errorf("after %s: %s: %v", took.Round(time.Millisecond), api.KindOf(err), err)
			}
		})
	}
	asked.Wait()
}
