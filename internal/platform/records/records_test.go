package records

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
)

// row is a record of somebody. Gaps have Missed.
type row struct {
	Of     string
	Missed int
}

// disk is a store that fails as long as it has an error, and hangs while it has a gate.
type disk struct {
	mu    sync.Mutex
	err   error
	gate  chan struct{}
	rows  []row
	sizes []int
	tries int
}

func (d *disk) insert(ctx context.Context, all []row) error {
	d.mu.Lock()
	d.tries++
	err, gate := d.err, d.gate
	d.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(r row) bool { return r.Of == "invalid" }) {
		return api.Errorf(api.KindInvalid, "a record is not valid")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows, d.sizes = append(d.rows, all...), append(d.sizes, len(all))
	return nil
}

func (d *disk) tried() int { d.mu.Lock(); defer d.mu.Unlock(); return d.tries }

func (d *disk) set(err error) { d.mu.Lock(); defer d.mu.Unlock(); d.err = err }

// of returns how many rows somebody has, and how many are missing in its gaps.
func (d *disk) of(name string) (rows, missed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.Of == name && r.Missed == 0 {
			rows++
		} else if r.Of == name {
			missed += r.Missed
		}
	}
	return rows, missed
}

func (d *disk) want(t *testing.T, name string, rows, missed int) {
	t.Helper()
	if r, m := d.of(name); r != rows || m != missed {
		t.Errorf("%s has %d rows and misses %d; want %d and %d", name, r, m, rows, missed)
	}
}

// writer returns a writer to a disk. Its clock is that of the bubble.
func writer(d *disk, change func(*Config[row, string])) *Writer[row, string] {
	cfg := Config[row, string]{
		What: "rows", Insert: d.insert, Owner: func(r row) string { return r.Of },
		Gap: func(o string, n int, _ time.Time) row { return row{Of: o, Missed: n} },
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func closed(t *testing.T, w *Writer[row, string], want string) {
	t.Helper()
	err := w.Close(t.Context())
	if want == "" && err != nil || want != "" && (api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), want)) {
		t.Errorf("Close: %v; want %q", err, want)
	}
}

// TestBatches: records wait for others, but not for long, and not if somebody waits for them.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		w := writer(&d, nil)
		w.Add(row{Of: "a"})
		time.Sleep(99 * time.Millisecond)
		d.want(t, "a", 0, 0)
		w.Add(row{Of: "a"})
		time.Sleep(time.Millisecond)
		synctest.Wait()
		d.want(t, "a", 2, 0)
		if !slices.Equal(d.sizes, []int{2}) {
			t.Errorf("transactions of %v", d.sizes)
		}
		before := time.Now()
		w.Add(row{Of: "a"})
		w.Hurry()
		synctest.Wait()
		d.want(t, "a", 3, 0)
		w.Add(row{Of: "a"})
		if err := w.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		d.want(t, "a", 4, 0)
		for range 2048 { // half of the queue
			w.Add(row{Of: "b"})
		}
		synctest.Wait()
		d.want(t, "b", 2048, 0)
		if m := slices.Max(d.sizes); m != batch || !time.Now().Equal(before) {
			t.Errorf("a transaction of %d records; %v went by", m, time.Since(before))
		}
		w.Add(row{Of: "c"})
		closed(t, w, "")
		closed(t, w, "")
		d.want(t, "c", 1, 0)
		w.Add(row{Of: "c"})
		w.Miss(row{Of: "c"})
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("Flush after Close: %v", err)
		}
		closed(t, w, "2 rows were not recorded")
	})
}

// TestGaps: what is missed is counted for each owner, at most once a second unless somebody waits.
func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		rounds := 0
		w := writer(&d, func(c *Config[row, string]) {
			c.Weight = func(r row) int { return max(r.Missed, 1) }
			c.Round = func(context.Context, bool) bool { rounds++; return rounds == 1 }
		})
		w.Miss(row{Of: "a"})
		w.Miss(row{Of: "a", Missed: 5})
		w.Miss(row{Of: "b"})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		d.want(t, "a", 0, 6)
		d.want(t, "b", 0, 1)
		w.Miss(row{Of: "a"})
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		d.want(t, "a", 0, 6) // a second has not gone by
		time.Sleep(time.Second)
		synctest.Wait()
		d.want(t, "a", 0, 7)
		w.Miss(row{Of: "a"})
		if err := w.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		d.want(t, "a", 0, 8)
		n := rounds
		time.Sleep(time.Hour)
		synctest.Wait()
		if rounds != n {
			t.Errorf("%d rounds of an idle writer", rounds-n)
		}
		w.Miss(row{Of: "a"})
		closed(t, w, "")
		d.want(t, "a", 0, 9)
	})
}

// TestManyOwners: the memory for gaps is bounded; what exceeds it is lost, and said.
func TestManyOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		w := writer(&d, nil)
		for i := range maxOwners + 3 {
			w.Miss(row{Of: strings.Repeat("x", i+1)})
		}
		w.Miss(row{Of: "x"}) // a known one
		closed(t, w, "3 rows")
		d.want(t, "x", 0, 2)
	})
}

// TestStoreFails: records wait while the store fails, up to a maximum; the others are counted.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disk{err: errors.New("the disk is full")}
		var log strings.Builder
		var stored int
		w := writer(&d, func(c *Config[row, string]) {
			c.Queue, c.Logger = 5, slog.New(slog.NewTextHandler(&log, nil))
			c.Stored = func(_ context.Context, all []row) { stored += len(all) }
		})
		w.Add(row{Of: "a"})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait() // it is being written
		for range 9 {
			w.Add(row{Of: "a"})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := d.tried(); n < 10 || n > 12 {
			t.Errorf("%d attempts in ten seconds", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := w.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush while the store fails: %v", err)
		}
		d.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		d.want(t, "a", 6, 4)
		if stored != 7 {
			t.Errorf("%d records were told to be stored", stored)
		}
		// One invalid record does not cost the others.
		for _, of := range []string{"b", "invalid", "b"} {
			w.Add(row{Of: of})
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		d.want(t, "b", 2, 0)
		// A store that fails until the end does not prevent the end.
		d.set(errors.New("the disk is full"))
		w.Add(row{Of: "a"})
		closed(t, w, "2 rows were not recorded")
		if text := log.String(); strings.Count(text, "retrying") != 2 || strings.Count(text, "rows are recorded again") != 1 || strings.Count(text, "owner=invalid") != 1 {
			t.Errorf("the log has %s", text)
		}
	})
}

// TestCloseWaits: Close waits for the store, for as long as its context allows.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disk{gate: make(chan struct{})}
		w := writer(&d, nil)
		w.Add(row{Of: "a"})
		ended := make(chan error)
		go func() { ended <- w.Close(t.Context()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("Close did not wait: %v", err)
		default:
		}
		close(d.gate)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.want(t, "a", 1, 0)

		d = disk{gate: make(chan struct{})}
		w = writer(&d, nil)
		w.Add(row{Of: "a"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(ctx); api.KindOf(err) != api.KindInternal {
			t.Errorf("a store that hangs: %v", err)
		}
	})
}

// TestConcurrent: nothing is lost between goroutines.
func TestConcurrent(t *testing.T) {
	var d disk
	w := writer(&d, func(c *Config[row, string]) { c.Queue = 1 << 20 })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				w.Add(row{Of: "a"})
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	closed(t, w, "")
	d.want(t, "a", 1600, 0)
}

func TestLimits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := NewLimits[int](1, 2)
	for i, want := range []bool{true, true, false} {
		if l.Allow(1, now) != want {
			t.Errorf("attempt %d: %v", i+1, !want)
		}
	}
	if !l.Allow(2, now) || !l.Allow(1, now.Add(time.Second)) || l.Allow(1, now.Add(time.Second)) {
		t.Error("another key, or a second later")
	}
	// Buckets that are full are removed; one that is not is kept.
	for i := range 10 * leastSweep {
		l.Allow(i+10, now.Add(time.Duration(i)*time.Second))
	}
	if n := len(l.buckets); n > leastSweep {
		t.Errorf("%d buckets are kept", n)
	}
	at := now.Add(time.Duration(10*leastSweep) * time.Second)
	for i := range 4 * leastSweep { // all of them are in use
		l.Allow(-i, at)
		l.Allow(-i, at)
	}
	if l.Allow(-1, at) || l.Allow(-2*leastSweep, at) {
		t.Error("a bucket that is empty was removed")
	}
}
