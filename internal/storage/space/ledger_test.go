package space

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
)

// books are the parts of a ledger: what is stored really.
type books struct {
	*Ledger
	mu       sync.Mutex
	files    map[string]int64
	output   map[string]int64
	measured int
	err      error
	now      time.Time
	took     time.Duration
}

func newBooks(ceiling int64) *books {
	b := &books{files: map[string]int64{}, output: map[string]int64{}, now: time.Unix(1_800_000_000, 0), took: time.Millisecond}
	part := func(of map[string]int64) func(context.Context, string) (int64, error) {
		return func(_ context.Context, account string) (int64, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.measured++
			b.now = b.now.Add(b.took)
			return of[account], b.err
		}
	}
	b.Ledger = NewLedger(LedgerConfig{
		Ceiling: ceiling, Now: func() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now },
		Parts: []Part{{Name: "files", Bytes: part(b.files)}, {Name: "output", Bytes: part(b.output), Adds: true}},
	})
	return b
}

// TestCeiling: what an account may write depends on what it stores, and on nobody else.
func TestCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		account       string
		ceiling       int64
		files, output int64
		need          int64
		refused       bool
	}{
		"nothing stored":         {"alice", 100, 0, 0, 100, false},
		"too much at once":       {"alice", 100, 0, 0, 101, true},
		"both parts":             {"alice", 100, 40, 50, 10, false},
		"both parts, one more":   {"alice", 100, 40, 50, 11, true},
		"at the ceiling":         {"alice", 100, 100, 0, 0, true},
		"above the ceiling":      {"alice", 100, 400, 0, 0, true},
		"below, an unknown need": {"alice", 100, 99, 0, -1, false},
		"no ceiling":             {"alice", 0, 1 << 50, 0, 1 << 50, false},
		"the operator":           {"", 100, 1 << 50, 0, 1 << 50, false},
	} {
		for how, call := range map[string]func(*books) error{
			"check": func(b *books) error { return b.Check(t.Context(), c.account, "a snapshot", c.need) },
			"add":   func(b *books) error { return b.Add(t.Context(), c.account, "a snapshot", c.need) },
			"reserve": func(b *books) error {
				done, err := b.Reserve(t.Context(), c.account, "a snapshot", c.need)
				done()
				return err
			},
		} {
			b := newBooks(c.ceiling)
			b.files[c.account], b.output[c.account] = c.files, c.output
			b.files["bob"] = 1 << 40
			err := call(b)
			if (err != nil) != c.refused {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if err == nil {
				continue
			}
			if text := err.Error(); api.KindOf(err) != api.KindExhausted || !strings.Contains(text, `"alice"`) || !strings.Contains(text, "a snapshot") || !strings.Contains(text, "100 bytes") || !strings.Contains(api.HintOf(err), "hortus snapshot rm") {
				t.Errorf("%s, %s: %v (%s)", name, how, err, api.HintOf(err))
			}
		}
	}
	var none *Ledger
	if done, err := none.Reserve(t.Context(), "alice", "x", 1<<60); err != nil || none.Add(t.Context(), "alice", "x", 1<<60) != nil {
		t.Error("no ledger refuses a write")
	} else {
		done()
	}
	none.Changed("alice")
	none.Remeasure()
	none.Run("alice")()
}

// TestCounts: what was accepted counts before it is measured and once after, reservations count while they last, and
// what is removed counts no more.
func TestCounts(t *testing.T) {
	b := newBooks(100)
	ctx := t.Context()
	add := func(n int64, want bool) {
		t.Helper()
		if err := b.Add(ctx, "alice", "output", n); (err == nil) != want {
			t.Errorf("add %d: %v", n, err)
		}
	}
	uses := func(want int64) {
		t.Helper()
		if got, err := b.Used(ctx, "alice"); got != want || err != nil {
			t.Errorf("uses %d, want %d: %v", got, want, err)
		}
	}
	for range 9 {
		add(10, true)
	}
	if b.measured != 2 {
		t.Errorf("%d measurements for output", b.measured)
	}
	b.output["alice"] = 90
	b.now = b.now.Add(time.Minute)
	uses(90)
	add(11, false)
	add(10, true)
	add(1, false)
	b.output["alice"] = 0 // a collection
	b.Remeasure()
	add(1, true)
	b.output["alice"] = 1

	done, err := b.Reserve(ctx, "alice", "a snapshot", 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reserve(ctx, "alice", "a second one at the same time", 80); err == nil {
		t.Error("two reservations exceed the ceiling together")
	}
	b.now = b.now.Add(time.Minute)
	uses(81)
	b.files["alice"] = 60 // it became smaller
	done()
	done()
	uses(61)
	b.files["alice"] = 0
	b.Changed("alice")
	add(90, true)
}

// TestMeasureRests: a slow measurement is not repeated at once, an account whose size is not known writes nothing, and
// calls at the same time share a measurement.
func TestMeasureRests(t *testing.T) {
	b := newBooks(100)
	ctx := t.Context()
	b.took = 100 * time.Millisecond
	b.files["alice"] = 100
	for range 10 {
		if b.Check(ctx, "alice", "x", 1) == nil {
			t.Fatal("above the ceiling")
		}
	}
	if b.measured != 2 {
		t.Errorf("%d measurements", b.measured)
	}
	b.now = b.now.Add(time.Hour)
	b.err = errors.New("a broken disk")
	if err := b.Check(ctx, "alice", "x", 1); !errors.Is(err, b.err) {
		t.Errorf("not measured: %v", err)
	}
	b.err = nil
	var wg sync.WaitGroup
	b.files["bob"] = 50
	for range 100 {
		wg.Go(func() { _ = b.Add(ctx, "bob", "x", 1) })
	}
	wg.Wait()
	b.Changed("bob")
	if got, err := b.Used(ctx, "bob"); got != 100 || err != nil {
		t.Errorf("100 writers added up to %d: %v", got, err)
	}
}

// TestPays: at the floor the account that stores most pays, all of its sandboxes, and the next one only when the disk
// fills up further.
func TestPays(t *testing.T) {
	b := newBooks(0)
	b.files["alice"], b.files["bob"], b.files[""] = 30, 10, 20
	b.files["idle"] = 1000
	ends := func(level float64, want ...string) {
		t.Helper()
		for _, name := range []string{"bob", "alice", ""} {
			why, pays := b.Pays(t.Context(), name, level)
			wanted := false
			for _, w := range want {
				wanted = wanted || w == name
			}
			if pays != wanted || pays && !strings.Contains(why, "stores ") {
				t.Errorf("at %g %q pays: %v (%s)", level, name, pays, why)
			}
		}
	}
	alice, again := b.Run("alice"), b.Run("alice")
	b.Run("bob")
	operator := b.Run("")
	ends(1)
	ends(0.9, "alice")
	alice()
	ends(0.4, "alice") // the second sandbox writes until it has ended
	again()
	ends(0.4)
	ends(0.21)
	ends(0.19, "")
	operator()
	ends(0.18)
	ends(0.08, "bob")
	ends(1.5) // there is space again
	b.Run("alice")
	ends(0.99, "alice")

	var none *Ledger
	if _, pays := none.Pays(t.Context(), "alice", 0.5); !pays {
		t.Error("without a ledger nobody pays")
	}
}
