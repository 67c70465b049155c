package plan_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/test/tier"
)

// gitCalls counts the processes of git that a cache runs, by what it logs.
type gitCalls struct{ n atomic.Int64 }

func (*gitCalls) Enabled(context.Context, slog.Level) bool { return true }
func (c *gitCalls) WithAttrs([]slog.Attr) slog.Handler     { return c }
func (c *gitCalls) WithGroup(string) slog.Handler          { return c }
func (c *gitCalls) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "git" {
		c.n.Add(1)
	}
	return nil
}

// counted are rows that count what is written.
type counted struct {
	store.Plans
	writes, bytes atomic.Int64
}

func (c *counted) UpdatePlan(ctx context.Context, owner api.OwnerID, p store.Plan, items ...store.PlanItem) error {
	c.writes.Add(1)
	c.bytes.Add(int64(len(p.Doc)))
	for _, it := range items {
		c.bytes.Add(int64(len(it.Doc)))
	}
	return c.Plans.UpdatePlan(ctx, owner, p, items...)
}

// spent is the processor time of this process, without its children.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// costOf is the processor time of this process for one call of f.
func costOf(t *testing.T, f func() error) time.Duration {
	t.Helper()
	n := time.Duration(tier.Count(10, 50))
	before := spent(t)
	for range n {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	return (spent(t) - before) / n
}

// heap is the memory that is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestScale: the cost of an item does not grow with the number of items, and is little beside git's own. The rule is 5 ms of processor time. A
// machine that is slower, or busy, is so for git too. If others begin to use it in the middle, it is measured again.
func TestScale(t *testing.T) {
	for try := 1; ; try++ {
		rest, git := scale(t, tier.Count(24, 200))
		most := max(20*time.Millisecond, 2*git)
		if rest <= most {
			return
		}
		if try == 3 {
			t.Fatalf("an item costs %v of processor time beside git; want at most %v", rest, most)
		}
	}
}

// scale runs a plan of n items. It returns the processor time of this process for an item: what git's part takes, which is measured in the same
// run without a plan, and the rest, which is that of the scheduler, the queue, the rows and the events.
func scale(t *testing.T, n int) (rest, git time.Duration) {
	t.Helper()
	w := newWorld(t, map[string]string{"README": "one\n"})
	rows := &counted{Plans: w.db}
	var items []words.Item
	for i := range n {
		it := adds(fmt.Sprintf("item-%d", i))
		it.Request = strings.Repeat("Add the file, and say what is in it. ", 50)
		if i >= 20 && i%4 == 0 {
			it.Needs = []string{fmt.Sprintf("item-%d", i-20)}
		}
		items = append(items, it)
	}
	s := w.daemon(rows)
	memory, calls, began, before := heap(), w.calls.n.Load(), time.Now(), spent(t)
	p := w.create(s, items, func(c *words.Create) { c.Parallel = words.MaxParallel })
	p = w.done(s, p.ID)
	took, own := time.Since(began), spent(t)-before
	calls = w.calls.n.Load() - calls
	memory = heap() - memory
	if p.Outcome != api.OutcomeVerified || p.Counts[words.Completed] != n || len(w.tree(p.Head)) != n+1 {
		t.Fatalf("%s: %v", p.Outcome, p.Counts)
	}

	r, err := w.git.Find(w.source)
	if err != nil {
		t.Fatal(err)
	}
	// What git does for one item, and this process for it: the commit of an agent, its merge, and the move of the branch.
	head, made := p.Head, 0
	git = costOf(t, func() error {
		made++
		theirs, err := w.commit(head, head, map[string]string{fmt.Sprintf("cost-%d", made): "x\n"})
		if err != nil {
			return err
		}
		if _, err := r.Resolve(t.Context(), theirs); err != nil {
			return err
		}
		who := cache.Identity{Name: "Ada", Email: "ada@example.org"}
		res, err := r.Merge(t.Context(), cache.MergeRequest{Base: head, Ours: head, Theirs: theirs, Author: who, Committer: who, Message: "Merge", When: time.Unix(1_700_000_000, 0)})
		if err != nil {
			return err
		}
		err = r.MoveBranch(t.Context(), p.Branch, head, res.Commit)
		head = res.Commit
		return err
	})
	rest = own/time.Duration(n) - git
	t.Logf("%d items in %v: %v an item, of which this process takes %v; without git's part of %v (%.1f processes): %v",
		n, took, took/time.Duration(n), own/time.Duration(n), git, float64(calls)/float64(n), rest)

	var events, largest, count int
	for seq := int64(0); ; {
		page, err := w.log.Read(t.Context(), api.Stream{Kind: words.Stream, ID: string(p.ID)}, seq, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			seq, count = e.Seq, count+1
			events += len(e.Data)
			largest = max(largest, len(e.Data))
		}
		if len(page) == 0 {
			break
		}
	}
	t.Logf("an item has %.1f events with %d bytes and %.1f writes with %d bytes; the largest event has %d bytes; %d KiB of memory are kept",
		float64(count)/float64(n), events/n, float64(rows.writes.Load())/float64(n), rows.bytes.Load()/int64(n), largest, memory>>10)

	// Numbers of things are the same on each machine, and for each number of items.
	per := func(what string, got, most int64) {
		if got > most*int64(n) {
			t.Errorf("%d %s for %d items; want at most %d an item", got, what, n, most)
		}
	}
	per("processes of git", calls, 12)
	per("writes", rows.writes.Load(), 6)
	per("bytes of rows", rows.bytes.Load(), 20<<10)
	per("events", int64(count), 6)
	per("bytes of events", int64(events), 2<<10)
	if most := 4<<20 + int64(n)*32<<10; memory > most {
		t.Errorf("%d bytes of memory are kept; want at most %d", memory, most)
	}
	if largest > 16<<10 {
		t.Errorf("an event has %d bytes", largest)
	}
	return rest, git
}
