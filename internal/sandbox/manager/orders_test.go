package manager_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/test/patience"
)

// orders is a manager of fake machines.
type orders struct {
	*manager.Manager
	backend *fake
	rows    *fakeRows
	egress  *fakeEgress
}

func newOrders(t testing.TB) *orders {
	o := &orders{backend: newFake(), rows: newFakeRows(), egress: newFakeEgress()}
	o.Manager = manager.New(manager.Config{
		Owner: api.NewOwnerID(), Backends: []sandbox.Backend{o.backend}, Templates: templates{},
		Rows: o.rows, Log: noLog{}, Snapshots: newFakeSnapshots(t), Egress: o.egress,
	})
	return o
}

// ops are what can be requested of a sandbox, and what can happen to it. Their errors are
// answers; that they answer is what counts.
var ops = []struct {
	name string
	do   func(ctx context.Context, o *orders, id api.SandboxID, n int)
}{
	{"pause", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Sandboxes.Pause(ctx, id) }},
	{"resume", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Sandboxes.Resume(ctx, id) }},
	{"kill", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Sandboxes.Kill(ctx, id) }},
	{"pause to disk", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Pauser.PauseToDisk(ctx, id) }},
	{"pause files", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Pauser.PauseFiles(ctx, id) }},
	{"connect", func(ctx context.Context, o *orders, id api.SandboxID, _ int) {
		o.Sandboxes.Connect(ctx, id, time.Minute)
	}},
	{"snapshot", func(ctx context.Context, o *orders, id api.SandboxID, _ int) {
		o.Saver.Snapshot(ctx, id, api.CreateSnapshot{})
	}},
	{"fork", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		o.Forker.Fork(ctx, id, api.ForkSandbox{Count: 1 + n%2})
	}},
	{"set ttl", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		o.Sandboxes.SetTTL(ctx, id, time.Duration(1+n%40)*time.Millisecond)
	}},
	{"guest ends", func(_ context.Context, o *orders, _ api.SandboxID, n int) {
		if m := o.backend.any(n); m != nil {
			m.end("guest exited")
		}
	}},
	{"run", func(ctx context.Context, o *orders, id api.SandboxID, _ int) {
		if s, err := o.Guests.StartExec(ctx, id, api.ExecRequest{Args: []string{"true"}}); err == nil {
			s.Close()
		}
	}},
	{"get", func(ctx context.Context, o *orders, id api.SandboxID, _ int) { o.Sandboxes.Get(ctx, id) }},
	{"give up", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(n%3)*time.Millisecond)
		defer cancel()
		o.Pauser.PauseToDisk(ctx, id)
	}},
	{"set egress", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		o.Policies.SetEgress(ctx, id, *allowing(fmt.Sprintf("h%d.example", n)))
	}},
	{"add egress rules", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(n%3)*time.Millisecond)
		defer cancel()
		o.Policies.AddEgressRules(ctx, id, allowing("a.example").Rules)
	}},
	{"stand still", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+n%3)*time.Millisecond)
		defer cancel()
		o.Saver.Standstill(ctx, id, func(context.Context) error { runtime.Gosched(); return nil })
	}},
	{"move", func(ctx context.Context, o *orders, id api.SandboxID, n int) {
		o.Mover.Move(ctx, id, func() bool { return n%3 == 0 }, func(context.Context, api.Sandbox) error { runtime.Gosched(); return errBroken })
	}},
	{"yield", func(context.Context, *orders, api.SandboxID, int) { runtime.Gosched() }},
}

// FuzzOrders requests things of three sandboxes in any order, four at a time, and closes
// or leaves in the middle of it. Nothing hangs, nothing is left, no row comes back from its
// end.
func FuzzOrders(f *testing.F) {
	f.Add([]byte{0, 1, 2}, false)
	f.Add([]byte{3, 2, 3, 5, 3, 2, 7, 9, 1, 12, 2}, false)
	f.Add([]byte{8, 3, 8, 0, 3, 9, 9, 9, 6, 7, 4, 5, 11, 1}, true)
	f.Add([]byte{0, 3, 1, 5, 4, 1, 6, 2, 10, 12, 7, 7, 8, 13, 2, 3, 5}, true)
	f.Add([]byte{16, 3, 16, 1, 5, 16, 2, 8, 16, 0, 16, 7, 1, 16}, false)
	f.Fuzz(func(t *testing.T, order []byte, leave bool) {
		if len(order) > 64 {
			order = order[:64]
		}
		o := newOrders(t)
		o.backend.slow = func(string) { runtime.Gosched() }
		o.egress.refuse = func(api.Sandbox, api.EgressPolicy) error { runtime.Gosched(); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
		defer cancel()
		stuck := make(chan string, 1)
		// Looked at while it still hangs: who waits continues when the context ends.
		look := time.AfterFunc(patience.Of(8*time.Second), func() { stuck <- stacks() })
		defer look.Stop()
		ids := make([]api.SandboxID, 3)
		for i := range ids {
			req := api.CreateSandbox{Isolation: "fake"}
			if i > 0 {
				req.Egress = allowing("a.example")
			}
			s, err := o.Creator.Create(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = s.ID
		}
		var all sync.WaitGroup
		const workers = 4
		for w := range workers {
			all.Go(func() {
				for i := w; i < len(order); i += workers {
					n := int(order[i])
					ops[n%len(ops)].do(ctx, o, ids[n/len(ops)%len(ids)], n)
				}
			})
		}
		if len(order)%2 == 0 { // the end meets what is still under way
			all.Wait()
		}
		var err error
		if leave {
			_, err = o.Leave(ctx)
		} else {
			err = o.Close(ctx)
		}
		all.Wait()
		if err != nil && api.KindOf(err) != api.KindConflict {
			t.Errorf("close: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatalf("stuck:\n%s", <-stuck)
		}
		if n := o.Alive(); n != 0 {
			t.Errorf("%d sandboxes are left in the table", n)
		}
		if n := o.backend.count(); n != 0 {
			t.Errorf("%d machines are left", n)
		}
		o.egress.check(t)
		if len(o.rows.revived) != 0 {
			t.Errorf("rows came back from their end: %v", o.rows.revived)
		}
		for id, row := range o.rows.sandboxes {
			if suspended := row.State == api.SandboxPaused && row.Snapshot != ""; !leave && !row.State.Final() && !suspended {
				t.Errorf("sandbox %s is %s after everything was closed", id, row.State)
			}
		}
	})
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// TestGetDuringPause: a Get answers while a pause is under way, which takes as long as the
// memory is large.
func TestGetDuringPause(t *testing.T) {
	o := newOrders(t)
	defer o.Close(context.Background())
	s, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	for work, begin := range map[string]func() error{
		"pause":  func() error { _, err := o.Sandboxes.Pause(t.Context(), s.ID); return err },
		"resume": func() error { _, err := o.Sandboxes.Resume(t.Context(), s.ID); return err },
		"save":   func() error { _, err := o.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{}); return err },
	} {
		if work == "resume" {
			if _, err := o.Sandboxes.Pause(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		} else if _, err := o.Sandboxes.Resume(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		at, goOn := make(chan struct{}), make(chan struct{})
		o.backend.slow = func(w string) {
			if w == work {
				close(at)
				<-goOn
			}
		}
		over := make(chan error, 1)
		go func() { over <- begin() }()
		<-at
		got := make(chan error, 1)
		go func() {
			_, err := o.Sandboxes.Get(t.Context(), s.ID)
			if err == nil {
				_, err = o.Sandboxes.List(t.Context(), true)
			}
			got <- err
		}()
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("%s: %v", work, err)
			}
		case <-time.After(patience.Of(10 * time.Second)):
			t.Errorf("Get hangs during a %s", work)
		}
		close(goOn)
		if err := <-over; err != nil {
			t.Errorf("%s: %v", work, err)
		}
		o.backend.slow = nil
	}
}

// TestListIsOneQuery: a list of a thousand commands costs one query, and one command by its
// id one.
func TestListIsOneQuery(t *testing.T) {
	o := newOrders(t)
	defer o.Close(context.Background())
	s, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	var last api.ExecID
	for i := range 1000 {
		last = api.NewExecID()
		o.rows.InsertExec(t.Context(), api.Exec{ID: last, Sandbox: s.ID, Args: []string{fmt.Sprint(i)}, State: api.ExecExited})
	}
	if list, err := o.Guests.Execs(t.Context(), s.ID); err != nil || len(list) != 1000 || o.rows.queries != 1 {
		t.Errorf("%d commands by %d queries, %v", len(list), o.rows.queries, err)
	}
	if x, err := o.Guests.Exec(t.Context(), s.ID, last); err != nil || x.ID != last || o.rows.queries != 2 {
		t.Errorf("command %s by %d queries, %v", x.ID, o.rows.queries-1, err)
	}
}
