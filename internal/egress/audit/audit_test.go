package audit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
)

// rig has a real store and a real log.
type rig struct {
	t   *testing.T
	db  *database.DB
	log *event.Log
}

func newRig(t *testing.T) *rig {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: t.TempDir() + "/hortus.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &rig{t, db, event.NewLog(event.Config{Store: db})}
}

// rows returns all records, the oldest first.
func (r *rig) rows() []api.EgressDecision {
	r.t.Helper()
	var all []api.EgressDecision
	for d, err := range api.Pages(context.Background(), func(ctx context.Context, p api.PageRequest) ([]api.EgressDecision, string, error) {
		return r.db.EgressPage(ctx, "", api.EgressFilter{}, p)
	}) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, d)
	}
	slices.Reverse(all)
	return all
}

// events returns the decisions in the log of a sandbox.
func (r *rig) events(id api.SandboxID) (all []api.EgressDecision) {
	r.t.Helper()
	var after int64
	for {
		page, err := r.log.Read(context.Background(), api.Stream{Kind: api.StreamSandbox, ID: string(id)}, after, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		for _, e := range page {
			var d api.EgressDecision
			if err := json.Unmarshal(e.Data, &d); err != nil || e.Type != api.EventEgress {
				r.t.Fatalf("event %s %s: %v", e.Type, e.Data, err)
			}
			all, after = append(all, d), e.Seq
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(patience.Of(30 * time.Second))
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not in time", what)
		}
	}
}

func closed(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(30*time.Second))
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// counter counts by result.
type counter struct {
	mu sync.Mutex
	by map[api.EgressResult]int
}

func (c *counter) count(d api.EgressDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[api.EgressResult]int{}
	}
	c.by[d.Result] += weight(d)
}

func decision(id api.SandboxID, result api.EgressResult) api.EgressDecision {
	return api.EgressDecision{Sandbox: id, Account: "a", Task: "t1", Op: "connect", Result: result, Host: "example.org", Port: 443}
}

func TestRecorder(t *testing.T) {
	w := newRig(t)
	var counted counter
	r := NewRecorder(Config{Store: w.db, Events: w.log, Count: counted.count})
	results := []api.EgressResult{api.EgressAllowed, api.EgressDenied, api.EgressFailed}
	for i := range 900 { // more than a batch
		r.Record(decision("i1", results[i%3]))
	}
	hostile := decision("i2", api.EgressDenied)
	hostile.Host, hostile.Method, hostile.Path = "EVIL.example\x1b[2J\u202e", "GET\r\n", "/a\x00?token=secret"
	hostile.Commands = []string{"curl\x07", "b", "c", "d", "e", "f", "g", "h", "i"}
	r.Record(hostile)
	closed(t, r)
	closed(t, r) // again
	rows := w.rows()
	if len(rows) != 901 {
		t.Fatalf("%d records", len(rows))
	}
	for i, d := range rows[:900] {
		if d.Result != results[i%3] || d.At.IsZero() || d.Account != "a" || d.Task != "t1" {
			t.Fatalf("record %d is %+v", i, d)
		}
	}
	last := rows[900]
	if last.Host != "evil.example\ufffd[2j\ufffd" || last.Method != "GET\ufffd\ufffd" || last.Path != "/a\ufffd" || len(last.Commands) != maxCommands || last.Commands[0] != "curl\ufffd" {
		t.Errorf("recorded %+v", last)
	}
	if e := w.events("i2"); len(e) != 1 || e[0].Host != last.Host || e[0].Seq != last.Seq {
		t.Errorf("the log has %+v", e)
	}
	if counted.by[api.EgressAllowed] != 300 || counted.by[api.EgressDenied] != 301 || counted.by[api.EgressFailed] != 300 || len(counted.by) != 3 {
		t.Errorf("counted %v", counted.by)
	}
	// The log has the first of the 600 that were not allowed, and how many it lacks.
	told, missing := 0, 0
	for _, d := range w.events("i1") {
		switch {
		case d.Op == api.EgressOpGap:
			missing += d.Count
		case d.Result == api.EgressAllowed:
			t.Error("the log has an allowed one")
		default:
			told++
		}
	}
	if told < 100 || told > 150 || told+missing != 600 {
		t.Errorf("%d events, %d missing", told, missing)
	}
	r.Record(hostile)
	if err := r.Close(t.Context()); api.KindOf(err) != api.KindInternal {
		t.Errorf("a decision after the end: %v", err)
	}
}

// A flood of refused decisions costs a bounded number of records, is counted, and does not
// hide an allowed one, or those of another sandbox.
func TestFlood(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		whole  bool
	}{
		"limited":            {Limits{Sandbox: 1, SandboxBurst: 50}, false},
		"account":            {Limits{Account: 1, AccountBurst: 52}, false},
		"control: no limits": {Limits{SandboxBurst: 1 << 20, AccountBurst: 1 << 20}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRig(t)
			var counted counter
			r := NewRecorder(Config{Store: w.db, Count: counted.count, Limits: c.limits})
			r.Record(decision("i1", api.EgressAllowed))
			for range 3000 {
				r.Record(decision("i2", api.EgressDenied))
			}
			if name != "account" {
				r.Record(decision("i2", api.EgressAllowed))
			}
			closed(t, r)
			denied, missing, allowed := 0, 0, 0
			for _, d := range w.rows() {
				switch d.Result {
				case api.EgressDenied:
					denied++
				case api.EgressAllowed:
					allowed++
				case api.EgressDropped:
					if missing += d.Count; d.Sandbox != "i2" || d.Account != "a" || d.Task != "t1" || d.Reason == "" {
						t.Errorf("a gap %+v", d)
					}
				}
			}
			if denied+missing != 3000 || c.whole != (missing == 0) || !c.whole && denied > 500 {
				t.Errorf("%d recorded, %d missing", denied, missing)
			}
			if want := 2; allowed != want && name != "account" || allowed < 1 {
				t.Errorf("%d allowed ones are recorded", allowed)
			}
			if counted.by[api.EgressDenied] != 3000 || counted.by[api.EgressDropped] != missing {
				t.Errorf("counted %v", counted.by)
			}
		})
	}
}

// faulty fails until it is repaired.
type faulty struct {
	Store
	mu    sync.Mutex
	err   error
	calls int
}

func (f *faulty) InsertEgress(ctx context.Context, all []api.EgressDecision) error {
	f.mu.Lock()
	f.calls++
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Store.InsertEgress(ctx, all)
}

func (f *faulty) tried() int { f.mu.Lock(); defer f.mu.Unlock(); return f.calls }

func (f *faulty) set(err error) { f.mu.Lock(); defer f.mu.Unlock(); f.err = err }

func TestStoreFails(t *testing.T) {
	w := newRig(t)
	f := &faulty{Store: w.db, err: errors.New("the disk is full")}
	r := NewRecorder(Config{Store: f, Queue: 100, Delay: time.Nanosecond})
	r.Record(decision("i1", api.EgressDenied))
	eventually(t, "a try", func() bool { return f.tried() > 0 })
	for range 300 {
		r.Record(decision("i1", api.EgressDenied))
	}
	f.set(nil)
	eventually(t, "the records", func() bool { return len(w.rows()) == 102 })
	rows := w.rows()
	if last := rows[101]; last.Op != api.EgressOpGap || last.Count != 200 {
		t.Errorf("the last record is %+v", last)
	}
	// One invalid decision does not cost the others.
	for _, id := range []api.SandboxID{"i1", "", "i2"} {
		r.Record(decision(id, api.EgressDenied))
	}
	eventually(t, "the valid ones", func() bool { return len(w.rows()) == 104 })
	// A store that fails does not prevent the end.
	f.set(errors.New("the disk is full"))
	for range 99 {
		r.Record(decision("i1", api.EgressDenied))
	}
	if err := r.Close(t.Context()); err == nil || err.Error() != "100 decisions about outgoing connections were not recorded" {
		t.Errorf("closed with %v", err)
	}
}

// Close ends a recorder whose store hangs, when its context ends.
func TestStoreHangs(t *testing.T) {
	entered := make(chan struct{}, 1)
	r := NewRecorder(Config{Store: hanging{entered}})
	r.Record(decision("i1", api.EgressWaiting))
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); api.KindOf(err) != api.KindInternal {
		t.Error(err)
	}
}

type hanging struct{ entered chan struct{} }

func (h hanging) InsertEgress(ctx context.Context, _ []api.EgressDecision) error {
	h.entered <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestConcurrentRecord(t *testing.T) {
	w := newRig(t)
	r := NewRecorder(Config{Store: w.db, Events: w.log})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				r.Record(decision(api.NewSandboxID(), api.EgressAllowed))
			}
		})
	}
	wg.Wait()
	closed(t, r)
	if n := len(w.rows()); n != 1600 {
		t.Errorf("%d records", n)
	}
}
