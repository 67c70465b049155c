package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

const gib = 1 << 30

// big is a host on which only what a test bounds is short.
var big = Host{MemoryTotal: 100 * gib, MemoryAvailable: 90 * gib, DiskTotal: 100 * gib, DiskFree: 80 * gib, CPUs: 100}

// host is one that a test can change.
type host struct {
	mu sync.Mutex
	h  Host
}

func (h *host) measure() (Host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h, nil
}

func (h *host) set(f func(*Host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.h)
}

// gate opens a gate that promises nothing twice, unless the test says otherwise.
func gate(t testing.TB, h Host, change func(*Config)) (*Gate, *host) {
	t.Helper()
	at := &host{h: h}
	cfg := Config{Measure: at.measure, MemoryShare: 1, Overcommit: 1, CPUOvercommit: 1}
	if change != nil {
		change(&cfg)
	}
	g, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, at
}

func slots(n int) func(*Config) { return func(c *Config) { c.MaxSandboxes = n } }

// outcome is how an Admit ended.
type outcome struct {
	name    string
	release func()
	err     error
}

// ask admits in the background, and sends how that ended.
func ask(ctx context.Context, g *Gate, name string, r sandbox.Need, to chan<- outcome, told func(api.WaitingEvent)) {
	go func() {
		release, err := g.Admit(ctx, r, told)
		to <- outcome{name, release, err}
	}()
	synctest.Wait()
}

func TestThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, big, slots(2))
		defer g.Close()
		told := func(e api.WaitingEvent) { t.Errorf("one that need not wait was told %+v", e) }
		first, err := g.Admit(t.Context(), sandbox.Need{Memory: gib, CPUs: 1, Disk: gib}, told)
		if err != nil {
			t.Fatal(err)
		}
		second := g.Try(sandbox.Need{Memory: 2 * gib})
		if second == nil || g.Try(sandbox.Need{}) != nil {
			t.Error("two places, and not two got one")
		}
		if s := g.State(); s.Sandboxes != 2 || s.Memory != 3*gib || s.CPUs != 1 || s.Disk != gib || s.Waiting != 0 {
			t.Errorf("holds %+v", s)
		}
		for range 3 {
			first()
			second()
		}
		if s := g.State(); s.Sandboxes != 0 || s.Memory != 0 || s.CPUs != 0 || s.Disk != 0 {
			t.Errorf("holds %+v after everything was let go", s)
		}
	})
}

// TestTurns: one account that floods delays another by one sandbox at a time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, big, slots(1))
		defer g.Close()
		release := g.Try(sandbox.Need{Account: "flood"})
		done := make(chan outcome, 20)
		place := map[string]int{}
		queue := func(account string, n int) {
			for i := range n {
				name := fmt.Sprint(account, i+1)
				ask(t.Context(), g, name, sandbox.Need{Account: account}, done, func(e api.WaitingEvent) {
					if _, seen := place[name]; !seen {
						place[name] = e.Position
					}
					if e.Cause != api.WaitSandboxes || e.Why == "" {
						t.Errorf("%s waits for %+v", name, e)
					}
				})
			}
		}
		queue("flood", 5)
		queue("a", 2)
		queue("", 1)
		// The place that each was told is when it came.
		if want := map[string]int{"flood1": 1, "flood5": 5, "a1": 2, "a2": 4, "1": 3}; true {
			for name, n := range want {
				if place[name] != n {
					t.Errorf("%s was told place %d, want %d", name, place[name], n)
				}
			}
		}
		var order []string
		for range 8 {
			release()
			o := <-done
			if o.err != nil {
				t.Fatal(o.name, o.err)
			}
			order, release = append(order, o.name), o.release
		}
		release()
		if want := []string{"flood1", "a1", "1", "flood2", "a2", "flood3", "flood4", "flood5"}; !slices.Equal(order, want) {
			t.Errorf("turns %q, want %q", order, want)
		}
	})
}

// TestLargeIsNotPassedOver: while a large request waits, small ones that would fit
// wait behind it.
func TestLargeIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, Host{MemoryTotal: 10 * gib, MemoryAvailable: 10 * gib}, nil)
		defer g.Close()
		half := g.Try(sandbox.Need{Account: "a", Memory: 5 * gib})
		done := make(chan outcome, 4)
		ask(t.Context(), g, "large", sandbox.Need{Account: "b", Memory: 8 * gib}, done, nil)
		var cause api.WaitCause
		ask(t.Context(), g, "small", sandbox.Need{Account: "c", Memory: gib}, done, func(e api.WaitingEvent) { cause = e.Cause })
		if g.Try(sandbox.Need{Account: "d", Memory: gib}) != nil {
			t.Error("one that came last went first")
		}
		if cause != api.WaitTurn {
			t.Errorf("what would fit waits for %q, want its turn", cause)
		}
		half()
		first, second := <-done, <-done
		names := []string{first.name, second.name}
		slices.Sort(names) // both fit now
		if first.err != nil || second.err != nil || !slices.Equal(names, []string{"large", "small"}) {
			t.Errorf("%+v, %+v", first, second)
		}
	})
}

// TestDiskHoldsUpDisk: one that waits for disk holds up nobody who needs none.
func TestDiskHoldsUpDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := gate(t, big, nil)
		defer g.Close()
		at.set(func(h *Host) { h.DiskFree = 2 * gib })
		time.Sleep(2 * lookEvery)
		done := make(chan outcome, 4)
		var e api.WaitingEvent
		ask(t.Context(), g, "disk", sandbox.Need{Account: "a", Disk: 4 * gib}, done, func(now api.WaitingEvent) { e = now })
		if e.Cause != api.WaitDisk || !strings.Contains(e.Why, "2.0 GiB of disk") {
			t.Errorf("waits for %+v", e)
		}
		ask(t.Context(), g, "more disk", sandbox.Need{Account: "b", Disk: gib / 2}, done, nil)
		ask(t.Context(), g, "none", sandbox.Need{Account: "c"}, done, nil)
		if o := <-done; o.name != "none" || o.err != nil {
			t.Errorf("first was %+v", o)
		}
		if len(done) != 0 {
			t.Error("disk was given to one who came later")
		}
		at.set(func(h *Host) { h.DiskFree = 50 * gib })
		for range 2 {
			if o := <-done; o.err != nil {
				t.Error(o)
			}
		}
	})
}

func TestMemoryThatIsReallyFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := gate(t, big, nil)
		defer g.Close()
		at.set(func(h *Host) { h.MemoryAvailable = gib / 2 })
		time.Sleep(2 * lookEvery)
		// The first waits for nobody: no sandbox holds what it could wait for.
		first := g.Try(sandbox.Need{Memory: gib})
		if first == nil {
			t.Fatal("an empty host lets nobody in")
		}
		done := make(chan outcome, 1)
		var e api.WaitingEvent
		ask(t.Context(), g, "second", sandbox.Need{Memory: gib}, done, func(now api.WaitingEvent) { e = now })
		if e.Cause != api.WaitMemory || !strings.Contains(e.Why, "512 MiB of the host's memory are free") {
			t.Errorf("waits for %+v", e)
		}
		at.set(func(h *Host) { h.MemoryAvailable = 50 * gib })
		if o := <-done; o.err != nil {
			t.Error(o.err)
		}
	})
}

// TestBetweenTwoLooks: what was let in since the last look counts as started.
func TestBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := big
		h.MemoryAvailable = gib + 10*startup // a GiB stays free
		g, _ := gate(t, h, nil)
		defer g.Close()
		n := 0
		for n < 100 && g.Try(sandbox.Need{Memory: 16 << 20}) != nil {
			n++
		}
		if n != 10 {
			t.Errorf("%d were let in before anybody looked again, want 10", n)
		}
		time.Sleep(2 * lookEvery) // the look finds that they took nothing
		if g.Try(sandbox.Need{Memory: 16 << 20}) == nil {
			t.Error("nobody is let in after a look")
		}
	})
}

func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waited atomic.Int64
		g, _ := gate(t, big, func(c *Config) {
			c.MaxSandboxes = 1
			c.Waited = func(_ api.WaitCause, _ time.Duration, admitted bool) {
				if !admitted {
					waited.Add(1)
				}
			}
		})
		defer g.Close()
		release := g.Try(sandbox.Need{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan outcome, 4)
		ask(ctx, g, "gone", sandbox.Need{Account: "a"}, done, nil)
		var places []int
		ask(t.Context(), g, "next", sandbox.Need{Account: "a"}, done, func(e api.WaitingEvent) { places = append(places, e.Position) })
		ask(api.WithPatience(t.Context(), 3*time.Second), g, "impatient", sandbox.Need{Account: "b"}, done, nil)
		bounded, cancelBounded := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancelBounded()
		ask(bounded, g, "deadline", sandbox.Need{Account: "c"}, done, nil)
		cancel()
		if o := <-done; o.name != "gone" || !errors.Is(o.err, context.Canceled) || o.release != nil {
			t.Errorf("%+v", o)
		}
		for _, name := range []string{"impatient", "deadline"} {
			o := <-done
			if o.name != name || api.KindOf(o.err) != api.KindExhausted || api.RetryAfterOf(o.err) < time.Second || !strings.Contains(o.err.Error(), "at position ") ||
				!strings.HasSuffix(api.HintOf(o.err), "or raise daemon.max-sandboxes") { // no other setting helps
				t.Errorf("%+v (%s, after %s, %s)", o, api.KindOf(o.err), api.RetryAfterOf(o.err), api.HintOf(o.err))
			}
		}
		if s := g.State(); s.Waiting != 1 {
			t.Errorf("%d wait, want 1", s.Waiting)
		}
		if !slices.Equal(places, []int{2, 1}) {
			t.Errorf("was told the places %v, want 2 and then 1", places)
		}
		release()
		o := <-done
		if o.name != "next" || o.err != nil {
			t.Errorf("%+v", o)
		}
		o.release()
		if s := g.State(); s.Sandboxes != 0 || s.Waiting != 0 || waited.Load() != 3 {
			t.Errorf("%+v, and %d waits in vain", s, waited.Load())
		}
	})
}

// TestElsewhere: what waits gives up once another host seems to have capacity, and not before.
func TestElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, big, slots(1))
		defer g.Close()
		release := g.Try(sandbox.Need{})
		defer release()
		var room atomic.Bool
		var refused atomic.Int64
		done := make(chan outcome, 1)
		ask(api.WithElsewhere(t.Context(), room.Load, func() { refused.Add(1) }), g, "waits", sandbox.Need{Account: "a"}, done, nil)
		time.Sleep(time.Minute)
		if s := g.State(); s.Waiting != 1 || refused.Load() != 0 {
			t.Fatalf("%+v, refused %d times", s, refused.Load())
		}
		room.Store(true)
		if o := <-done; api.KindOf(o.err) != api.KindExhausted || o.release != nil || refused.Load() != 1 {
			t.Errorf("%+v, refused %d times", o, refused.Load())
		}
		if s := g.State(); s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestGivenUpAsItIsLetIn: what a waiter was given in the moment in which it gave up
// is not lost.
func TestGivenUpAsItIsLetIn(t *testing.T) {
	for range 200 {
		g, _ := gate(t, big, slots(1))
		release := g.Try(sandbox.Need{})
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan struct{})
		done := make(chan outcome, 1)
		go func() {
			r, err := g.Admit(ctx, sandbox.Need{}, func(api.WaitingEvent) { close(waits) })
			done <- outcome{"", r, err}
		}()
		<-waits
		go cancel()
		release()
		if o := <-done; o.err == nil {
			o.release()
		}
		if s := g.State(); s.Sandboxes != 0 || s.Waiting != 0 {
			t.Fatalf("left: %+v", s)
		}
		g.Close()
		cancel()
	}
}

func TestNever(t *testing.T) {
	g, _ := gate(t, Host{MemoryTotal: 10 * gib, MemoryAvailable: gib, DiskTotal: 20 * gib, DiskFree: gib, CPUs: 2}, func(c *Config) { c.Overcommit = 2 })
	defer g.Close()
	for _, c := range []struct {
		r    sandbox.Need
		says string
		hint string
	}{
		{sandbox.Need{Memory: 21 * gib}, "21.0 GiB of memory, but the maximum is 20.0 GiB", "daemon.memory-share"},
		{sandbox.Need{CPUs: 3}, "3 processors, but the maximum is 2", "raise daemon.cpu-overcommit in"},
		{sandbox.Need{Disk: 39 * gib}, "39.0 GiB of disk, but the maximum is 38.0 GiB", "raise daemon.overcommit in"},
		{sandbox.Need{CPUs: 3, Memory: 21 * gib}, "; it needs ", "daemon.overcommit, daemon.cpu-overcommit"},
	} {
		_, err := g.Admit(t.Context(), c.r, func(api.WaitingEvent) { t.Error("it was let wait") })
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.says) || !strings.Contains(api.HintOf(err), c.hint) {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

// TestTooLargeForASum: what is wanted and what is promised together are more than an int64 can have.
func TestTooLargeForASum(t *testing.T) {
	g, _ := gate(t, big, nil)
	defer g.Close()
	release := g.Try(sandbox.Need{Memory: gib, Disk: gib})
	if release == nil {
		t.Fatal("a small one was not let in")
	}
	defer release()
	for _, r := range []sandbox.Need{{Memory: math.MaxInt64}, {Disk: math.MaxInt64}} {
		if release := g.Try(r); release != nil {
			t.Errorf("%+v was let in; promised: %+v", r, g.State())
			release()
		}
		if _, err := g.Admit(t.Context(), r, nil); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, big, slots(1))
		release := g.Try(sandbox.Need{})
		done := make(chan outcome, 3)
		for i := range 3 {
			ask(t.Context(), g, "", sandbox.Need{Account: fmt.Sprint(i % 2)}, done, nil)
		}
		g.Close()
		for range 3 {
			if o := <-done; api.KindOf(o.err) != api.KindUnavailable {
				t.Errorf("%+v", o)
			}
		}
		if _, err := g.Admit(t.Context(), sandbox.Need{}, nil); api.KindOf(err) != api.KindUnavailable {
			t.Errorf("after the end: %v", err)
		}
		release()
		if s := g.State(); s.Sandboxes != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHold: after a restart, what is there counts although it is more than fits.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, Host{MemoryTotal: 4 * gib, MemoryAvailable: 4 * gib}, nil)
		defer g.Close()
		var held []func()
		for range 6 {
			held = append(held, g.Hold(sandbox.Need{Memory: gib}))
		}
		done := make(chan outcome, 1)
		ask(t.Context(), g, "new", sandbox.Need{Memory: gib}, done, nil)
		for i, release := range held {
			if len(done) > 0 && i < 3 {
				t.Errorf("let in with %d of 6 gone", i)
			}
			release()
			synctest.Wait()
		}
		if o := <-done; o.err != nil {
			t.Error(o.err)
		}
	})
}

// TestHeldIsSeen: what was there when the host was looked at is not counted as if it
// were still to use its memory: nobody waits for that after a restart.
func TestHeldIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, Host{MemoryTotal: 100 * gib, MemoryAvailable: 2 * gib}, nil)
		defer g.Close()
		for range 64 { // which as newcomers would be mistaken for 2 GiB more
			g.Hold(sandbox.Need{Memory: gib})
		}
		for range 31 { // 32 MiB each, over the one that stays free
			if g.Try(sandbox.Need{Memory: gib}) == nil {
				t.Fatalf("there is room: %+v", g.State())
			}
		}
		if g.Try(sandbox.Need{}); g.Try(sandbox.Need{}) != nil {
			t.Error("newcomers are not counted between two looks")
		}
	})
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t, big, slots(1))
		release := g.Try(sandbox.Need{})
		defer release()
		done := make(chan outcome, maxLine)
		for range maxLine {
			go func() {
				r, err := g.Admit(t.Context(), sandbox.Need{Account: "a"}, nil)
				done <- outcome{"", r, err}
			}()
		}
		synctest.Wait()
		if _, err := g.Admit(t.Context(), sandbox.Need{Account: "a"}, nil); api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) == 0 {
			t.Errorf("one more than may wait: %v", err)
		}
		ask(t.Context(), g, "", sandbox.Need{Account: "b"}, done, nil)
		if n := g.State().Waiting; n != maxLine+1 {
			t.Errorf("%d wait: another account is refused for the flood of one", n)
		}
		g.Close()
		for range maxLine + 1 {
			<-done
		}
	})
}

// TestManyAtOnce: whatever happens at the same time, no more is promised than there
// is, and nothing stays.
func TestManyAtOnce(t *testing.T) {
	g, _ := gate(t, Host{MemoryTotal: 10 * gib, MemoryAvailable: 100 * gib, CPUs: 8}, slots(7))
	defer g.Close()
	var over sync.Map
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(500))*time.Microsecond, cancel)
				}
				release, err := g.Admit(ctx, sandbox.Need{Account: fmt.Sprint(i % 4), Memory: int64(random.IntN(4*gib) + 1), CPUs: float64(random.IntN(3))}, nil)
				if s := g.State(); s.Memory > 10*gib || s.Sandboxes > 7 || s.CPUs > 8 {
					over.Store(s, true)
				}
				switch {
				case err == nil:
					release()
				case ctx.Err() == nil:
					t.Errorf("refused: %v", err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	over.Range(func(s, _ any) bool { t.Errorf("held %+v", s); return false })
	if s := g.State(); s.Sandboxes != 0 || s.Waiting != 0 || s.Memory != 0 {
		t.Errorf("left: %+v", s)
	}
}

// BenchmarkRoom is what a sandbox costs that need not wait: it must stay far below the
// 10 µs that a create of half a millisecond can spare.
func BenchmarkRoom(b *testing.B) {
	g, err := Open(Config{Measure: Measurer(b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	for b.Loop() {
		release := g.Try(sandbox.Need{Account: "a", Memory: gib, CPUs: 1})
		if release == nil {
			b.Fatal("no room")
		}
		release()
	}
}
